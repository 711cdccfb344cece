//! Client of Azure's Instance Metadata Service (IMDS): the scheduled-events document, the VM's identity, approvals.
//!
//! Invariants: one request is in flight (each takes the [`Client`] by `&mut`); two requests start at least 200 ms
//! apart; redirects are not followed; no proxy is used; a body above 4 MiB is rejected; the status is checked before
//! the body. Every failure is a [`RequestError`](crate::azure::RequestError) with one of a closed set of reasons and
//! a hint for the operator.
//!
//! A document is returned only if IMDS sent one: an error object, a captive portal's page, a redirect or a truncated
//! body is a failure. The only exception is a minute of consecutive empty bodies (`empty`).
//!
//! References: <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events>,
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service>.

pub(crate) mod backoff;
mod body;
mod client;
mod connection;
mod empty;
mod endpoint;
mod error;
mod identity;
mod known_document;
pub(crate) mod timeouts;

pub use backoff::IdentityTiming;
pub use client::Client;
pub use endpoint::{Endpoint, EndpointError};
