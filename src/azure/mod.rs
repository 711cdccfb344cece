//! Azure's terms and their forms: event types and IDs, API versions, the document, the client of the Instance Metadata
//! Service.

pub mod api_version;
pub mod document;
pub mod event;
pub mod imds;

pub use imds::{
    identity::Identity,
    request_error::{FailureReason, RequestError},
};
