//! Which alerts are sent to one Alertmanager, and when. Pure.
//!
//! An alert that is new, and one that is resolved, is sent at once; all others are sent again after an interval of
//! their own ([`PushTiming`]). An alert is built only if it is sent, and unchanged events are not compared for each
//! snapshot. So the work for a change hardly grows with the number of unchanged alerts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    alert::{Alert, Match, RESOLVED_RETENTION, matches},
    timing::PushTiming,
};
use crate::{
    event::EventId,
    lifecycle::TrackedEvent,
    snapshot::Snapshot,
    time::{Moment, Timestamp},
};

/// Alerts of one request. News is not delayed for longer than it takes to send that many others.
const MAX_BATCH: usize = 500;
/// Alerts that fire or were resolved recently; further ones are not pushed. Prometheus has them.
const MAX_ALERTS: usize = 10_000;
/// Time alone changes which rules match. While the events do not change, they are compared this often.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The alerts that one Alertmanager is to know, and which of them it accepted. Durations are times of the monotonic
/// clock.
#[derive(Debug)]
pub struct AlertQueue {
    timing: PushTiming,
    max_alerts: usize,
    alerts: HashMap<EventId, Vec<KnownAlert>>,
    len: usize,
    last_key: u64,
    /// New alerts beyond `max_alerts`.
    skipped: usize,
    /// The events that were compared last. Until `compare_at` the result for them is the same.
    compared: Arc<[Arc<TrackedEvent>]>,
    compare_at: Duration,
    /// Nothing is to be sent before.
    due_at: Duration,
}

#[derive(Debug)]
struct KnownAlert {
    /// Identifies it within the queue.
    key: u64,
    /// The event, as it was when the rule matched last.
    tracked: Arc<TrackedEvent>,
    matched: Match,
    accepted: Option<Accepted>,
}

#[derive(Debug, Clone, Copy)]
struct Accepted {
    is_resolved: bool,
    at: Duration,
}

/// The alerts of one request.
#[derive(Debug, Default)]
pub struct AlertBatch {
    alerts: Vec<(EventId, u64, Alert)>,
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
        self.alerts.iter().map(|(_, _, alert)| alert)
    }
}

impl KnownAlert {
    fn is_news(&self) -> bool {
        let is_resolved = self.matched.resolved_at.is_some();
        self.accepted
            .is_none_or(|accepted| accepted.is_resolved != is_resolved)
    }

    fn has_labels_of(&self, matched: Match, tracked: &TrackedEvent) -> bool {
        let (known, event) = (&self.tracked.event, &tracked.event);
        self.matched.has_labels_of(matched)
            && known.event_type == event.event_type
            && known.source == event.source
    }

    /// Resolves it if Alertmanager has it as firing. False if it need not be sent any more.
    fn resolve(&mut self, now: Timestamp) -> bool {
        let resolved_at = *self.matched.resolved_at.get_or_insert(now);
        self.accepted.is_some() && now.saturating_since(resolved_at) < RESOLVED_RETENTION
    }
}

impl AlertQueue {
    pub fn new(timing: PushTiming) -> Self {
        Self {
            timing,
            max_alerts: MAX_ALERTS,
            alerts: HashMap::new(),
            len: 0,
            last_key: 0,
            skipped: 0,
            compared: Arc::from([]),
            compare_at: Duration::ZERO,
            due_at: Duration::ZERO,
        }
    }

    /// Alerts that are not sent, because there are too many.
    pub(super) fn skipped(&self) -> usize {
        self.skipped
    }

    /// When to ask again although no event changes. `None` without alerts.
    pub(super) fn next_check(&self) -> Option<Duration> {
        (self.len > 0).then_some(self.compare_at.min(self.due_at))
    }

    /// The alerts to send now, news first. The caller reports success to [`AlertQueue::accepted`] and asks again.
    /// `only_news`: no alert is sent again.
    pub fn next(&mut self, snapshot: &Snapshot, now: Moment, only_news: bool) -> AlertBatch {
        if now.monotonic >= self.compare_at || !self.is_compared(snapshot) {
            self.compare(snapshot, now.wall);
            self.compare_at = now.monotonic.saturating_add(RECHECK_INTERVAL);
        } else if now.monotonic < self.due_at {
            return AlertBatch::default();
        }
        self.due_at = Duration::MAX;
        let (mut news, mut due) = (Vec::new(), Vec::new());
        let known = self.alerts.iter();
        let with_id = known.flat_map(|(id, alerts)| alerts.iter().map(move |alert| (id, alert)));
        for (id, alert) in with_id {
            let interval =
                self.timing
                    .resend_interval(snapshot, alert.matched.resolved_at, now.wall);
            let accepted_at = alert
                .accepted
                .map_or(Duration::ZERO, |accepted| accepted.at);
            let due_at = accepted_at.saturating_add(interval);
            if alert.is_news() {
                news.push((id, alert));
            } else if due_at <= now.monotonic && !only_news {
                due.push((id, alert));
            } else {
                self.due_at = self.due_at.min(due_at);
            }
        }
        let chosen = news.iter().chain(&due).take(MAX_BATCH);
        let alerts: Vec<_> = chosen
            .map(|(id, known)| {
                let alert = known.matched.alert(&known.tracked, snapshot, now.wall);
                ((*id).clone(), known.key, alert)
            })
            .collect();
        if !alerts.is_empty() {
            self.due_at = Duration::ZERO;
        }
        AlertBatch {
            alerts,
            has_news: !news.is_empty(),
        }
    }

    /// Alertmanager accepted the batch.
    pub fn accepted(&mut self, batch: AlertBatch, now: Moment) {
        for (id, key, alert) in batch.alerts {
            let known = self.alerts.get_mut(&id).into_iter().flatten();
            for known in known.filter(|known| known.key == key) {
                known.accepted = Some(Accepted {
                    is_resolved: alert.is_resolved,
                    at: now.monotonic,
                });
            }
        }
    }

    fn is_compared(&self, snapshot: &Snapshot) -> bool {
        let (known, current) = (&self.compared, &snapshot.events);
        let mut pairs = known.iter().zip(current.iter());
        known.len() == current.len() && pairs.all(|(known, current)| Arc::ptr_eq(known, current))
    }

    /// Finds new alerts, resolved ones, and those that need not be sent any more.
    fn compare(&mut self, snapshot: &Snapshot, now: Timestamp) {
        self.compared = Arc::clone(&snapshot.events);
        self.skipped = 0;
        let mut before = std::mem::take(&mut self.alerts);
        self.len = before.values().map(Vec::len).sum();
        for tracked in snapshot.events.iter() {
            let id = &tracked.event.id;
            let known = before.remove(id).unwrap_or_default();
            let count = known.len();
            let current = self.compare_event(known, tracked, now);
            self.len = (self.len + current.len()).saturating_sub(count);
            if !current.is_empty() {
                self.alerts.insert(id.clone(), current);
            }
        }
        // Of events that are not tracked any more, Alertmanager ends the firing alerts after their time to live.
        for (id, mut known) in before {
            let count = known.len();
            known.retain_mut(|alert| alert.matched.resolved_at.is_some() && alert.resolve(now));
            self.len = (self.len + known.len()).saturating_sub(count);
            if !known.is_empty() {
                self.alerts.insert(id, known);
            }
        }
    }

    fn compare_event(
        &mut self,
        mut known: Vec<KnownAlert>,
        tracked: &Arc<TrackedEvent>,
        now: Timestamp,
    ) -> Vec<KnownAlert> {
        let (mut current, mut new) = (Vec::new(), 0);
        for matched in matches(tracked, now) {
            let index = known
                .iter()
                .position(|alert| alert.has_labels_of(matched, tracked));
            if let Some(index) = index {
                let mut alert = known.swap_remove(index);
                alert.tracked = Arc::clone(tracked);
                alert.matched = matched;
                current.push(alert);
            } else if self.len + new < self.max_alerts {
                new += 1;
                self.last_key += 1;
                current.push(KnownAlert {
                    key: self.last_key,
                    tracked: Arc::clone(tracked),
                    matched,
                    accepted: None,
                });
            } else {
                self.skipped += 1;
            }
        }
        // Those that do not match any more.
        known.retain_mut(|alert| alert.resolve(now));
        current.extend(known);
        current
    }
}

#[cfg(test)]
mod tests;
