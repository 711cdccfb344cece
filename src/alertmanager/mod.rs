//! Tells Alertmanager by itself of the events that name this VM: for a Spot eviction's 30 seconds the way by Prometheus
//! (scrape, evaluation, `group_wait`) may be too long.
//!
//! [`alert`] is pure and says what is told; [`push`] tells it. An alert that is pushed is the same alert as that of the
//! rules in `alerts/scheduled-events.rules.yml`: the same labels, so that Alertmanager merges what comes by both ways.
//!
//! What must never be: a label that changes during an event's life, an alert resolved because a poll failed, an
//! Alertmanager that makes another one wait.

pub mod alert;
pub mod push;
mod target;

pub use alert::{Alert, Severity};
pub use push::Pusher;
pub use target::{Credentials, SetupError, Target};
