//! Azure's terms and their forms: event types and IDs, API versions, the document, the client of the Instance Metadata
//! Service.

pub mod api_version;
pub mod document;
pub mod event;
mod identity;
pub mod imds;
mod request_error;

pub use identity::Identity;
pub use request_error::{FailureReason, RequestError};
