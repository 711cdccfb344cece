//! Which alerts are sent to one Alertmanager, and when. Pure.
//!
//! A new alert is sent at once, and again by an interval of its own while it fires ([`PushTiming`]). Its end is sent at
//! once, and again when `endsAt` has passed: Alertmanager takes no earlier `endsAt` while it is in the future. An alert
//! is built only if it is sent.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use super::{
    alert::{Alert, Labels, Match, matches},
    target::PushTiming,
};
use crate::{
    azure::event::EventScope,
    base::time::{Moment, Timestamp},
    core::{lifecycle::TrackedEvent, snapshot::Snapshot},
};

/// Alerts of one request. News is not delayed for longer than it takes to send that many others.
const MAX_BATCH: usize = 500;
/// Time alone changes which rules match. While the events do not change, they are compared this often.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);
/// What was not accepted by then, after the end of an event, is not sent any more.
const RESOLVED_RETENTION: Duration = Duration::from_mins(6);

/// The alerts that one Alertmanager is to know, and which of them it accepted. Durations are times of the monotonic
/// clock.
#[derive(Debug)]
pub struct AlertQueue {
    timing: PushTiming,
    /// Those of `--alertmanager.external-label`.
    labels: Labels,
    alerts: BTreeMap<Labels, KnownAlert>,
    /// When to ask again although no event changes.
    check_at: Duration,
}

/// What was sent of an alert.
#[derive(Debug)]
struct KnownAlert {
    /// The event, as it was when the rule matched last.
    tracked: Arc<TrackedEvent>,
    matched: Match,
    /// What Alertmanager accepted last, and when.
    accepted: Option<(PushedState, Duration)>,
    /// It was in a batch.
    is_tried: bool,
}

/// Each is sent when it begins, and only [`PushedState::Firing`] is sent again. By the wall clock, as `endsAt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PushedState {
    Firing,
    /// With the text of the end. For Alertmanager the alert still fires: of two times of the end in the future it takes
    /// the later one, which is that of the last push before the end.
    Ended,
    /// The same message when its `endsAt` has passed.
    Resolved,
}

/// When an alert is to be sent.
enum Due {
    News,
    Again,
    At(Duration),
}

/// The alerts that may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    All,
    /// No alert is sent again.
    News,
    /// Alerts that were in no batch yet.
    Untried,
}

/// The alerts of one request.
#[derive(Debug, Default)]
pub struct AlertBatch {
    alerts: Vec<(PushedState, Alert)>,
    pub(super) has_news: bool,
}

impl AlertBatch {
    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty()
    }

    pub(super) fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().map(|(_, alert)| alert)
    }
}

impl AlertQueue {
    /// Adds `labels` to each alert.
    pub fn new(timing: PushTiming, labels: Labels) -> Self {
        Self {
            timing,
            labels,
            alerts: BTreeMap::new(),
            check_at: Duration::ZERO,
        }
    }

    /// When to ask again although no event changes. `None` without alerts.
    pub(super) fn next_check(&self) -> Option<Duration> {
        (!self.alerts.is_empty()).then_some(self.check_at)
    }

    /// The alerts to send now, news first. The caller reports success to [`AlertQueue::accepted`] and asks again.
    pub fn next(&mut self, snapshot: &Snapshot, now: Moment, wanted: Wanted) -> AlertBatch {
        if snapshot.health.last_success.is_none() {
            // The events are those of an earlier process.
            return AlertBatch::default();
        }
        self.compare(snapshot, now);
        let failure = snapshot.health.failure.as_ref();
        let is_blind = failure.is_some_and(|failure| {
            now.wall.saturating_since(failure.since) >= self.timing.blind_after
        });
        self.check_at = now.monotonic.saturating_add(RECHECK_INTERVAL);
        let (mut news, mut due) = (Vec::new(), Vec::new());
        for (labels, alert) in &mut self.alerts {
            match alert.due(&self.timing, is_blind, now) {
                Due::News if wanted == Wanted::Untried && alert.is_tried => {}
                Due::News => news.push((labels, alert)),
                Due::Again if wanted != Wanted::All => {}
                Due::Again => due.push((labels, alert)),
                Due::At(at) => self.check_at = self.check_at.min(at),
            }
        }
        let has_news = !news.is_empty();
        let chosen = news.into_iter().chain(due).take(MAX_BATCH);
        let alerts = chosen.map(|(labels, known)| {
            known.is_tried = true;
            let (tracked, labels) = (&known.tracked, labels.clone());
            let state = known.state(&self.timing, now.wall);
            (
                state,
                known.matched.alert(tracked, snapshot, labels, now.wall),
            )
        });
        AlertBatch {
            alerts: alerts.collect(),
            has_news,
        }
    }

    /// Alertmanager accepted the batch.
    pub fn accepted(&mut self, batch: AlertBatch, now: Moment) {
        for (state, alert) in batch.alerts {
            if let Some(known) = self.alerts.get_mut(&alert.labels) {
                known.accepted = Some((state, now.monotonic));
            }
        }
    }

    /// Finds new alerts, resolved ones, and those that need not be sent any more.
    fn compare(&mut self, snapshot: &Snapshot, now: Moment) {
        let mut before = std::mem::take(&mut self.alerts);
        for tracked in snapshot.events.iter() {
            for matched in matches(tracked, now.wall) {
                let labels = matched.labels(tracked, &self.labels);
                // Of another event whose ID has the same visible characters. One that fires goes before one that ended.
                let twin = self.alerts.get(&labels).map(|twin| &twin.matched);
                if twin
                    .is_some_and(|twin| twin.resolved_at.is_none() || matched.resolved_at.is_some())
                {
                    continue;
                }
                let known = before
                    .remove(&labels)
                    .or_else(|| self.alerts.remove(&labels));
                let alert = KnownAlert {
                    tracked: Arc::clone(tracked),
                    matched,
                    accepted: known.as_ref().and_then(|known| known.accepted),
                    is_tried: known.is_some_and(|known| known.is_tried),
                };
                self.alerts.insert(labels, alert);
            }
        }
        // Of events that are not tracked any more, Alertmanager ends the firing alerts after their time to live. Those
        // of the others end when they do not match any more. While the name of the VM was unknown, an event may have
        // been of other VMs.
        let events = snapshot.events.iter();
        let scopes: HashMap<_, _> = events.map(|it| (&it.event.id, it.scope)).collect();
        for (labels, mut known) in before {
            let is_ended = known.matched.resolved_at.is_some();
            let is_kept = match scopes.get(&known.tracked.event.id) {
                None => is_ended,
                Some(EventScope::Other) => is_ended && known.accepted.is_some(),
                Some(_) => known.accepted.is_some(),
            };
            if is_kept {
                known.matched.resolved_at.get_or_insert(now.wall);
                self.alerts.insert(labels, known);
            }
        }
        // Others were resolved by an earlier process, or long ago.
        self.alerts.retain(|_, alert| !alert.is_expired(now.wall));
    }
}

impl KnownAlert {
    /// It is not sent any more.
    fn is_expired(&self, now: Timestamp) -> bool {
        let resolved_at = self.matched.resolved_at;
        resolved_at.is_some_and(|at| now.saturating_since(at) >= RESOLVED_RETENTION)
    }

    fn state(&self, timing: &PushTiming, now: Timestamp) -> PushedState {
        let Some(resolved_at) = self.matched.resolved_at else {
            return PushedState::Firing;
        };
        // The VMs that it still names send the alert.
        let names_others = self
            .tracked
            .event
            .resources
            .as_ref()
            .is_some_and(|names| !names.is_empty());
        let is_of_others =
            self.tracked.scope == EventScope::Other && self.tracked.is_pending() && names_others;
        if is_of_others || now.saturating_since(resolved_at) < timing.resolve_after {
            PushedState::Ended
        } else {
            PushedState::Resolved
        }
    }

    /// `is_blind`: its event may have ended, and if it names another VM, that one may have resolved the alert.
    fn due(&self, timing: &PushTiming, is_blind: bool, now: Moment) -> Due {
        let state = self.state(timing, now.wall);
        let accepted = self.accepted.filter(|(accepted, _)| *accepted == state);
        let Some((_, accepted_at)) = accepted else {
            return Due::News;
        };
        if state != PushedState::Firing || is_blind && !self.tracked.names_only_this_vm() {
            return Due::At(Duration::MAX);
        }
        let due_at = accepted_at.saturating_add(timing.resend_interval);
        if due_at > now.monotonic {
            Due::At(due_at)
        } else {
            Due::Again
        }
    }
}

#[cfg(test)]
mod tests;
