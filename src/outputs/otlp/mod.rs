//! Exports the events of this VM to an OTLP collector, as spans and as log records, and pushes the metrics.
//!
//! Each [`Signal`](signal::Signal) has its own sender, and each but the metrics has its own spool. A span or log record
//! that was appended to the spool is exported or counted as dropped, also after a kill at any instruction. What is
//! exported twice has the same ids. Polls and scrapes wait for no collector, and no signal for the receiver of another.

pub mod attribute;
pub mod batch;
pub mod cursor;
pub mod log_record;
pub mod request;
mod resource;
pub mod sender;
pub mod settings;
pub mod signal;
pub mod spool;
pub mod trace;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
