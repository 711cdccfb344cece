//! What is known and decided about events. Pure: no clock, no socket, no file.

pub mod approval;
pub(crate) mod assessment;
pub mod engine;
pub mod journal;
pub mod lifecycle;
mod ownership;
pub mod pause;
pub mod snapshot;
