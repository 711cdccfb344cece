//! Traces: each event of this VM as spans, and the way to a collector that loses none of them.
//!
//! [`trace`] makes spans of what happened, [`resource`] says of whom they speak, [`spool`] keeps them until a collector
//! has them, [`sender`] brings them there, and [`settings`] reads OpenTelemetry's standard environment variables.
//!
//! Promised: a span that was appended to the spool is sent or counted as dropped, also after a kill at any instruction;
//! a span that is sent twice has the same ids. Never: a poll or a scrape that waits for a collector.

pub mod resource;
pub mod sender;
pub mod settings;
pub mod spool;
pub mod trace;

pub use crate::snapshot::SpanCounts as Counts;
