//! Asking Azure's Instance Metadata Service (IMDS): the scheduled-events document, who this VM is, and approvals.
//!
//! What this room promises: one request in flight (each takes the [`Client`] by `&mut`), two requests never start
//! within 200 ms of each other, no redirect is followed, no proxy is used, no body above 4 MiB is held, and the status
//! is judged before the body. Whatever is not an answer comes back as an [`Error`] with one of the closed set of reasons
//! and a sentence that says what to do.
//!
//! What it must never do: hand out a document that IMDS did not send. An error object, a captive portal's page, a
//! redirect or half a body is a failure, and a failure says nothing about events. The one exception is stated where it
//! is made: an empty body, for a minute and more ([`client`]).
//!
//! Microsoft's pages: <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events>,
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service>.

pub mod cadence;
pub mod client;
mod connection;
mod empty;
pub mod endpoint;
mod error;
mod error_body;
pub mod identity;

pub use client::Client;
pub use endpoint::{Endpoint, SetupError};
pub use error::Error;
