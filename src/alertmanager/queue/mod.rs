//! Which alerts are sent to one Alertmanager, and when. Pure.
//!
//! An alert that is new, and one that is resolved, is sent at once; all others are sent again after an interval of
//! their own ([`PushTiming`]). An alert is built only if it is sent, and unchanged events are not compared for each
//! snapshot. So the work for a change hardly grows with the number of unchanged alerts.

mod known_alert;

use std::{collections::HashMap, sync::Arc, time::Duration};

use self::known_alert::{Accepted, Due, KnownAlert, RESOLVED_RETENTION};
use super::{
    alert::{Alert, Labels, matches},
    end::{Listed, ListedAlert},
    timing::{PushTiming, Sight},
};
use crate::{event::EventId, lifecycle::TrackedEvent, snapshot::Snapshot, time::Moment};

/// Alerts of one request. News is not delayed for longer than it takes to send that many others.
const MAX_BATCH: usize = 500;
/// Alerts that fire or were resolved recently; further ones are not pushed. Prometheus has them.
const MAX_ALERTS: usize = 10_000;
/// With more alerts, none is read before it is sent again: that is one request for each event.
const MAX_READ_ALERTS: usize = 20;
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
    /// At the last call.
    sight: Sight,
    /// The alerts of this event are to be read.
    to_read: Option<EventId>,
    /// Alerts are not read before they are sent again: a read has failed.
    no_reads_until: Duration,
    /// Nothing is to be sent before.
    due_at: Duration,
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
            sight: Sight::Awaited,
            to_read: None,
            no_reads_until: Duration::ZERO,
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
        let sight = self.timing.sight(snapshot, now.wall);
        if now.monotonic >= self.compare_at || !self.is_compared(snapshot) {
            self.compare(snapshot, now);
            self.compare_at = now.monotonic.saturating_add(RECHECK_INTERVAL);
        } else if now.monotonic < self.due_at && sight == self.sight {
            return AlertBatch::default();
        }
        self.sight = sight;
        self.to_read = None;
        self.due_at = Duration::MAX;
        let (mut news, mut due) = (Vec::new(), Vec::new());
        let is_reading = self.len <= MAX_READ_ALERTS && self.no_reads_until <= now.monotonic;
        let mut read_first = None;
        let known = self.alerts.iter();
        let with_id = known.flat_map(|(id, alerts)| alerts.iter().map(move |alert| (id, alert)));
        for (id, alert) in with_id {
            match alert.due(&self.timing, sight, now.monotonic) {
                Due::Send { is_news: true } => news.push((id, alert)),
                Due::Send { .. } | Due::ReadFirst if only_news => {}
                // Until the process ends, only what can confirm an end.
                Due::Read if only_news && alert.end.is_none() => {}
                Due::ReadFirst if is_reading => {
                    read_first.get_or_insert(id);
                }
                Due::Send { .. } | Due::ReadFirst => due.push((id, alert)),
                Due::Read => {
                    self.to_read.get_or_insert_with(|| id.clone());
                }
                Due::At(at) => self.due_at = self.due_at.min(at),
            }
        }
        if let Some(id) = read_first {
            // Then all are sent in one request.
            due.clear();
            self.to_read = Some(id.clone());
        }
        let chosen = news.iter().chain(&due).take(MAX_BATCH);
        let alerts: Vec<_> = chosen
            .map(|(id, known)| {
                let (tracked, labels) = (&known.tracked, &self.labels);
                let alert = known.matched.alert(tracked, snapshot, labels, now.wall);
                ((*id).clone(), known.key, alert)
            })
            .collect();
        if !alerts.is_empty() || self.to_read.is_some() {
            self.due_at = Duration::ZERO;
        }
        AlertBatch {
            alerts,
            has_news: !news.is_empty(),
        }
    }

    /// The event whose alerts Alertmanager is asked for, if [`AlertQueue::next`] has nothing to send. The caller
    /// reports the answer to [`AlertQueue::record_read`].
    pub(super) fn event_to_read(&self) -> Option<&EventId> {
        self.to_read.as_ref()
    }

    /// `listed`: the alerts of the event that fire; `None` if that could not be read.
    pub(super) fn record_read(
        &mut self,
        id: &EventId,
        listed: Option<&[ListedAlert]>,
        now: Duration,
    ) {
        let labels = &self.labels;
        let find = |known: &KnownAlert| {
            let own = known.matched.labels(&known.tracked, labels);
            let mut listed = listed.unwrap_or_default().iter();
            let found = listed.find(|alert| alert.labels == own);
            found.map_or((Listed::NotFiring, false), |alert| {
                let has_generator = !alert.generator_url.is_empty();
                (Listed::Firing(&alert.updated_at), has_generator)
            })
        };
        let interval = self.timing.confirmation_interval;
        if listed.is_none() {
            self.no_reads_until = now.saturating_add(interval);
        }
        let known = self.alerts.get_mut(id).into_iter().flatten();
        let mut firing = Vec::new();
        for alert in known {
            let (found, has_generator) = find(alert);
            alert.record_read(found, has_generator, interval, now);
            if alert.end.is_none() {
                firing.push((alert, matches!(found, Listed::Firing(_))));
            }
        }
        // A second alert of the event, which is new, is as true as the first.
        let is_confirmed = firing.iter().any(|(_, is_listed)| *is_listed);
        for (alert, _) in firing {
            alert.is_confirmed = is_confirmed;
        }
        self.to_read = None;
        self.due_at = Duration::ZERO;
    }

    /// Alertmanager accepted the batch.
    pub fn accepted(&mut self, batch: AlertBatch, now: Moment) {
        for (id, key, alert) in batch.alerts {
            let known = self.alerts.get_mut(&id).into_iter().flatten();
            for known in known.filter(|known| known.key == key) {
                known.is_confirmed = false;
                // It was sent again and not read before: somebody else may have sent it in between.
                if self.len > MAX_READ_ALERTS && known.accepted.is_some() {
                    known.asserted_elsewhere_at = Some(now.monotonic);
                }
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
            known.retain(|alert| alert.end.is_some() && !alert.is_expired(now.monotonic));
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
                alert.update(tracked, matched, now.monotonic);
                current.push(alert);
            } else if !matched.resolved_at.is_none_or(is_recent) {
                // It was resolved by an earlier process, or long ago.
            } else if self.len + new < self.max_alerts {
                new += 1;
                self.last_key += 1;
                let mut alert = KnownAlert::new(self.last_key, tracked, matched, now.monotonic);
                // An earlier process may have sent it, and Prometheus too.
                if self.sight == Sight::Awaited {
                    alert.asserted_elsewhere_at = Some(now.monotonic);
                }
                current.push(alert);
            } else {
                self.skipped += 1;
            }
        }
        // Those that do not match any more. If the event goes on for other VMs, they still send the alert.
        known.retain(|alert| alert.accepted.is_some());
        for alert in &mut known {
            alert.replace(now);
        }
        current.extend(known);
        current.retain(|alert| !alert.is_expired(now.monotonic));
        current
    }
}

#[cfg(test)]
mod tests;
