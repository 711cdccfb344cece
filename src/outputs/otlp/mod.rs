//! Exports the events of this VM to an OTLP collector, as spans and as log records, and pushes the metrics.
//!
//! Each [`Signal`](signal::Signal) has its own sender. Spans and log records are made of the entries of the journal when
//! they are sent, and a [cursor](cursor::Cursor) for each signal says how far that was: each is exported or counted as
//! dropped, also after a kill at any instruction, and what is exported twice has the same ids. Polls and scrapes wait for
//! no collector, and no signal for the receiver of another.

pub mod attribute;
pub mod cursor;
pub mod log_record;
mod resource;
pub mod sender;
pub mod settings;
pub mod signal;
pub mod trace;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
