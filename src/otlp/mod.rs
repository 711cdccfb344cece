//! Exports the events of this VM as spans to an OTLP collector.
//!
//! [`trace`] maps transitions to spans, [`resource`] describes the VM, [`spool`] stores batches until a collector has
//! accepted them, [`sender`] exports them, and [`settings`] reads OpenTelemetry's environment variables.
//!
//! Invariants: a span that was appended to the spool is exported or counted as dropped, also after a kill at any
//! instruction; a span that is exported twice has the same ids; neither polls nor scrapes wait for a collector.

pub(crate) mod resource;
pub mod sender;
pub mod settings;
pub mod spool;
pub mod trace;
