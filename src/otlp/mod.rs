//! Exports the events of this VM to an OTLP collector, as spans and as log records, and pushes the metrics.
//!
//! [`trace`] maps transitions to spans, [`log_record`] maps them to log records, [`resource`] describes the VM,
//! [`spool`] stores batches until a collector has accepted them, [`sender`] exports them, and [`settings`] reads
//! OpenTelemetry's environment variables. Each [`Signal`](signal::Signal) has its own sender, and each but the metrics
//! has its own spool.
//!
//! Invariants: a span or log record that was appended to the spool is exported or counted as dropped, also after a kill
//! at any instruction; what is exported twice has the same ids; neither polls nor scrapes wait for a collector, and no
//! signal waits for the receiver of another.

pub mod attribute;
pub mod batch;
pub mod log_record;
pub mod resource;
pub mod sender;
pub mod settings;
pub mod signal;
pub mod spool;
pub mod trace;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
