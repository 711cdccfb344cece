//! Which alerts are sent to one Alertmanager, and when. Pure.
//!
//! A new alert is sent at once, and again by an interval of its own while it fires ([`PushTiming`]). Its end is sent at
//! once, and again when `endsAt` has passed: Alertmanager takes no earlier `endsAt` while it is in the future. An alert
//! is built only if it is sent, and unchanged events are not compared for each snapshot. So the work for a change
//! hardly grows with the number of unchanged alerts.

mod known_alert;

use std::{collections::HashMap, sync::Arc, time::Duration};

use self::known_alert::{AlertState, Due, KnownAlert, RESOLVED_RETENTION};
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
/// Alerts that fire or were resolved recently; further ones are not pushed. Prometheus has them.
const MAX_ALERTS: usize = 10_000;
/// Time alone changes which rules match. While the events do not change, they are compared this often.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The alerts that one Alertmanager is to know, and which of them it accepted. Durations are times of the monotonic
/// clock.
#[derive(Debug)]
pub struct AlertQueue {
    timing: PushTiming,
    /// Those of `--alertmanager.external-label`.
    labels: Labels,
    max_alerts: usize,
    alerts: HashMap<EventId, Vec<KnownAlert>>,
    len: usize,
    last_key: u64,
    /// New alerts beyond `max_alerts`.
    skipped: usize,
    /// The events that were compared last. Until `compare_at` the result for them is the same.
    compared: Arc<[Arc<TrackedEvent>]>,
    compare_at: Duration,
    /// Whether polls failed at the last call.
    is_blind: bool,
    /// Nothing is to be sent before.
    due_at: Duration,
}

/// The alerts of one request.
#[derive(Debug, Default)]
pub struct AlertBatch {
    alerts: Vec<(EventId, u64, AlertState, Alert)>,
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
            max_alerts: MAX_ALERTS,
            alerts: HashMap::new(),
            len: 0,
            last_key: 0,
            skipped: 0,
            compared: Arc::from([]),
            compare_at: Duration::ZERO,
            is_blind: false,
            due_at: Duration::ZERO,
        }
    }

    /// Adds these labels to each alert.
    pub(super) fn with_labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
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
        if snapshot.health.last_success.is_none() {
            // The events are those of an earlier process.
            return AlertBatch::default();
        }
        let is_blind = self.timing.is_blind(snapshot, now.wall);
        if now.monotonic >= self.compare_at || !self.is_compared(snapshot) {
            self.compare(snapshot, now);
            self.compare_at = now.monotonic.saturating_add(RECHECK_INTERVAL);
        } else if now.monotonic < self.due_at && is_blind == self.is_blind {
            return AlertBatch::default();
        }
        self.is_blind = is_blind;
        self.due_at = Duration::MAX;
        let (mut news, mut due) = (Vec::new(), Vec::new());
        let known = self.alerts.iter();
        let with_id = known.flat_map(|(id, alerts)| alerts.iter().map(move |alert| (id, alert)));
        for (id, alert) in with_id {
            match alert.due(&self.timing, is_blind, now) {
                Due::News => news.push((id, alert)),
                Due::Again if only_news => {}
                Due::Again => due.push((id, alert)),
                Due::At(at) => self.due_at = self.due_at.min(at),
            }
        }
        let chosen = news.iter().chain(&due).take(MAX_BATCH);
        let alerts: Vec<_> = chosen
            .map(|(id, known)| {
                let (tracked, labels) = (&known.tracked, &self.labels);
                let state = known.state(&self.timing, now.wall);
                let alert = known.matched.alert(tracked, snapshot, labels, now.wall);
                ((*id).clone(), known.key, state, alert)
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
        for (id, key, state, _) in batch.alerts {
            let known = self.alerts.get_mut(&id).into_iter().flatten();
            for known in known.filter(|known| known.key == key) {
                known.accepted = Some((state, now.monotonic));
            }
        }
    }

    fn is_compared(&self, snapshot: &Snapshot) -> bool {
        let (known, current) = (&self.compared, &snapshot.events);
        let mut pairs = known.iter().zip(current.iter());
        known.len() == current.len() && pairs.all(|(known, current)| Arc::ptr_eq(known, current))
    }

    /// Finds new alerts, resolved ones, and those that need not be sent any more.
    fn compare(&mut self, snapshot: &Snapshot, now: Moment) {
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
            known.retain(|alert| {
                let is_ended = alert.matched.resolved_at.is_some();
                is_ended && !alert.is_expired(now.wall)
            });
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
        now: Moment,
    ) -> Vec<KnownAlert> {
        let (mut current, mut new) = (Vec::new(), 0);
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
            } else if !matched.resolved_at.is_none_or(is_recent) {
                // It was resolved by an earlier process, or long ago.
            } else if self.len + new < self.max_alerts {
                new += 1;
                self.last_key += 1;
                current.push(KnownAlert::new(self.last_key, tracked, matched));
            } else {
                self.skipped += 1;
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
