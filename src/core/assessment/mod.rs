//! What an event means for this VM: whether it interrupts it, when it starts, which alerts it has, and in which words.
//! Pure.
//!
//! Every output reads these decisions: metrics, and with them the rules and dashboards, the push to Alertmanager, log
//! records, the status page, the JSON and the probe. None of them decides again.

mod advice;
mod alerts;
mod down_vm;
mod message;
mod severity;
mod start;

pub(crate) use self::{
    alerts::{AlertRule, AlertState, EventAlert, alerts},
    message::{message, message_without_advice},
    severity::{priority, severity},
    start::Start,
};
use crate::{
    azure::event::EventScope,
    base::time::{Moment, Timestamp},
    core::{
        lifecycle::{ENDED_RETENTION, TrackedEvent},
        snapshot::Snapshot,
    },
};

/// Whether the event stops or pauses this VM. A Freeze of 0 s and advisories do not. Other types do whatever their
/// announced duration is.
pub(crate) fn interrupts_vm(tracked: &TrackedEvent) -> bool {
    tracked.scope == EventScope::Own
        && !tracked.shown.is_advisory()
        && !tracked.shown.is_without_interruption()
}

/// Whether this exporter speaks about the event: it names this VM, may do so, or did until a few minutes ago.
pub(crate) fn concerns_vm(tracked: &TrackedEvent, now: Moment) -> bool {
    let has_just_left = |left_at| tracked.since(left_at, now) < ENDED_RETENTION;
    tracked.scope != EventScope::Other || tracked.left_at.is_some_and(has_just_left)
}

/// Whether the last document lists the event for this VM. `None` if that is not known: the last poll failed, or the
/// document cannot prove that the event is over.
pub(crate) fn is_open(tracked: &TrackedEvent, snapshot: &Snapshot, now: Moment) -> Option<bool> {
    if over_at(tracked).is_some() {
        return Some(false);
    }
    let is_known = snapshot.poll.is_up(now) && tracked.last_listed_at.is_none();
    is_known.then_some(true)
}

/// When the event ended, or no longer named this VM.
fn over_at(tracked: &TrackedEvent) -> Option<Timestamp> {
    let left_at = tracked
        .left_at
        .filter(|_| tracked.scope == EventScope::Other);
    left_at.or(tracked.end.map(|end| end.at))
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
