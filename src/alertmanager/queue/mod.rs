//! Which alerts are sent to one Alertmanager, and when. Pure.
//!
//! A new alert is sent at once, and again by an interval of its own while it fires ([`PushTiming`]). Its end is sent at
//! once, and again when `endsAt` has passed: Alertmanager takes no earlier `endsAt` while it is in the future. An alert
//! is built only if it is sent.

mod known_alert;

use std::{collections::HashMap, sync::Arc, time::Duration};

use self::known_alert::{Due, KnownAlert, PushedState, RESOLVED_RETENTION};
use super::{
    alert::{Alert, Labels, matches},
    timing::PushTiming,
};
use crate::{
    event::{EventId, EventScope},
    lifecycle::TrackedEvent,
    snapshot::Snapshot,
    time::Moment,
};

/// Alerts of one request. News is not delayed for longer than it takes to send that many others.
const MAX_BATCH: usize = 500;
/// Time alone changes which rules match. While the events do not change, they are compared this often.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The alerts that one Alertmanager is to know, and which of them it accepted. Durations are times of the monotonic
/// clock.
#[derive(Debug)]
pub struct AlertQueue {
    timing: PushTiming,
    /// Those of `--alertmanager.external-label`.
    labels: Labels,
    alerts: HashMap<EventId, Vec<KnownAlert>>,
    last_key: u64,
    /// When to ask again although no event changes.
    check_at: Duration,
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
    alerts: Vec<(EventId, u64, PushedState, Alert)>,
    pub(super) has_news: bool,
}

impl AlertBatch {
    pub fn len(&self) -> usize {
        self.alerts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.alerts.is_empty()
    }

    pub(super) fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().map(|(_, _, _, alert)| alert)
    }
}

impl AlertQueue {
    pub fn new(timing: PushTiming) -> Self {
        Self {
            timing,
            labels: Labels::new(),
            alerts: HashMap::new(),
            last_key: 0,
            check_at: Duration::ZERO,
        }
    }

    /// Adds these labels to each alert.
    pub(super) fn with_labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
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
        let is_blind = self.timing.is_blind(snapshot, now.wall);
        self.check_at = now.monotonic.saturating_add(RECHECK_INTERVAL);
        let (mut news, mut due) = (Vec::new(), Vec::new());
        for (id, alerts) in &mut self.alerts {
            for alert in alerts {
                match alert.due(&self.timing, is_blind, now) {
                    Due::News if wanted == Wanted::Untried && alert.is_tried => {}
                    Due::News => news.push((id, alert)),
                    Due::Again if wanted != Wanted::All => {}
                    Due::Again => due.push((id, alert)),
                    Due::At(at) => self.check_at = self.check_at.min(at),
                }
            }
        }
        let has_news = !news.is_empty();
        let chosen = news.into_iter().chain(due).take(MAX_BATCH);
        let alerts = chosen.map(|(id, known)| {
            known.is_tried = true;
            let (tracked, labels) = (&known.tracked, &self.labels);
            let state = known.state(&self.timing, now.wall);
            let alert = known.matched.alert(tracked, snapshot, labels, now.wall);
            (id.clone(), known.key, state, alert)
        });
        AlertBatch {
            alerts: alerts.collect(),
            has_news,
        }
    }

    /// Alertmanager accepted the batch.
    pub fn accepted(&mut self, batch: AlertBatch, now: Moment) {
        for (id, key, state, _) in batch.alerts {
            let known = self.alerts.get_mut(&id).into_iter().flatten();
            for known in known.filter(|known| known.key == key) {
                known.accepted = Some((state, now.monotonic));
            }
        }
    }

    /// Finds new alerts, resolved ones, and those that need not be sent any more.
    fn compare(&mut self, snapshot: &Snapshot, now: Moment) {
        let mut before = std::mem::take(&mut self.alerts);
        for tracked in snapshot.events.iter() {
            let id = &tracked.event.id;
            let known = before.remove(id).unwrap_or_default();
            let current = self.compare_event(known, tracked, now);
            if !current.is_empty() {
                self.alerts.insert(id.clone(), current);
            }
        }
        // Of events that are not tracked any more, Alertmanager ends the firing alerts after their time to live.
        for (id, mut known) in before {
            known.retain(|alert| {
                let is_ended = alert.matched.resolved_at.is_some();
                is_ended && !alert.is_expired(now.wall)
            });
            if !known.is_empty() {
                self.alerts.insert(id, known);
            }
        }
    }

    fn compare_event(
        &mut self,
        mut known: Vec<KnownAlert>,
        tracked: &Arc<TrackedEvent>,
        now: Moment,
    ) -> Vec<KnownAlert> {
        let mut current = Vec::new();
        for matched in matches(tracked, now.wall) {
            let index = known
                .iter()
                .position(|alert| alert.has_labels_of(matched, tracked));
            let is_recent = |at| now.wall.saturating_since(at) < RESOLVED_RETENTION;
            if let Some(index) = index {
                let mut alert = known.swap_remove(index);
                alert.tracked = Arc::clone(tracked);
                alert.matched = matched;
                current.push(alert);
            } else if matched.resolved_at.is_none_or(is_recent) {
                // Others were resolved by an earlier process, or long ago.
                self.last_key += 1;
                current.push(KnownAlert::new(self.last_key, tracked, matched));
            }
        }
        // Those that do not match any more. While the name of the VM was unknown, the event may have been of others.
        let is_of_others = tracked.scope == EventScope::Other;
        known.retain(|alert| {
            let is_ended = alert.matched.resolved_at.is_some();
            alert.accepted.is_some() && (is_ended || !is_of_others)
        });
        for alert in &mut known {
            alert.matched.resolved_at.get_or_insert(now.wall);
        }
        current.extend(known);
        current.retain(|alert| !alert.is_expired(now.wall));
        current
    }
}

#[cfg(test)]
mod tests;
