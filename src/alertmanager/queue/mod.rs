//! Which alerts are sent to one Alertmanager, and when. Pure.
//!
//! An alert that is new, and one that is resolved, is sent at once; all others are sent again after an interval of their own
//! ([`PushTiming`]). So the work for a change does not grow with the number of alerts that are unchanged, except for
//! comparing their labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    alert::{Alert, Labels, Match, RESOLVED_RETENTION, matches},
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

/// The alerts that an Alertmanager accepted, and from that what it is to be sent.
#[derive(Debug)]
pub struct AlertQueue {
    timing: PushTiming,
    max_alerts: usize,
    sent: BTreeMap<Labels, Sent>,
    /// New alerts beyond `max_alerts`.
    skipped: usize,
    /// The events that were compared last.
    compared: Arc<[Arc<TrackedEvent>]>,
    /// Until then the same events have the same result. By the monotonic clock.
    compare_at: Duration,
}

#[derive(Debug, Clone)]
struct Sent {
    event_id: EventId,
    alert: Alert,
    /// By the monotonic clock.
    at: Duration,
}

/// The alerts of one request.
#[derive(Debug, Default)]
pub struct AlertBatch {
    alerts: Vec<(EventId, Alert)>,
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
        self.alerts.iter().map(|(_, alert)| alert)
    }
}

impl AlertQueue {
    pub fn new(timing: PushTiming) -> Self {
        Self {
            timing,
            max_alerts: MAX_ALERTS,
            sent: BTreeMap::new(),
            skipped: 0,
            compared: Arc::from([]),
            compare_at: Duration::ZERO,
        }
    }

    /// Alerts that are not sent, because there are too many.
    pub(super) fn skipped(&self) -> usize {
        self.skipped
    }

    /// The alerts to send now, news first. The caller reports success to [`AlertQueue::accepted`] and asks again.
    /// `only_news`: no alert is sent again.
    pub fn next(&mut self, snapshot: &Snapshot, now: Moment, only_news: bool) -> AlertBatch {
        if now.monotonic < self.compare_at && self.is_compared(snapshot) {
            return AlertBatch::default();
        }
        self.compared = Arc::clone(&snapshot.events);
        let current: BTreeMap<Labels, Match<'_>> = matches(snapshot, now.wall)
            .map(|matched| (matched.labels(), matched))
            .collect();
        self.remove_expired(&current, snapshot, now.wall);
        let mut batch = self.news(&current, snapshot, now.wall);
        batch.has_news = !batch.is_empty();
        if !only_news {
            self.add_due(&mut batch, &current, snapshot, now);
        }
        self.compare_at = if batch.is_empty() {
            let due = self
                .sent
                .values()
                .map(|sent| self.due(sent, snapshot, now.wall));
            let recheck_at = now.monotonic.saturating_add(RECHECK_INTERVAL);
            due.fold(recheck_at, Duration::min)
        } else {
            Duration::ZERO
        };
        batch
    }

    /// Alertmanager accepted the batch.
    pub fn accepted(&mut self, batch: AlertBatch, now: Moment) {
        for (event_id, alert) in batch.alerts {
            let sent = Sent {
                event_id,
                alert,
                at: now.monotonic,
            };
            self.sent.insert(sent.alert.labels.clone(), sent);
        }
    }

    /// When to ask again although no event changes, by the monotonic clock. `None` without alerts.
    pub(super) fn next_check(&self) -> Option<Duration> {
        (!self.sent.is_empty()).then_some(self.compare_at)
    }

    fn due(&self, sent: &Sent, snapshot: &Snapshot, now: Timestamp) -> Duration {
        let interval = self.timing.resend_interval(snapshot, &sent.alert, now);
        sent.at.saturating_add(interval)
    }

    fn is_compared(&self, snapshot: &Snapshot) -> bool {
        let (known, current) = (&self.compared, &snapshot.events);
        let mut pairs = known.iter().zip(current.iter());
        known.len() == current.len() && pairs.all(|(known, current)| Arc::ptr_eq(known, current))
    }

    /// Removes alerts that were resolved long ago, and those of events that are not tracked any more.
    fn remove_expired(
        &mut self,
        current: &BTreeMap<Labels, Match<'_>>,
        snapshot: &Snapshot,
        now: Timestamp,
    ) {
        let tracked = snapshot.events.iter().map(|tracked| &tracked.event.id);
        let tracked: BTreeSet<_> = tracked.collect();
        self.sent.retain(|labels, sent| {
            current.contains_key(labels)
                || if sent.alert.is_resolved {
                    now.saturating_since(sent.alert.ends_at) < RESOLVED_RETENTION
                } else {
                    tracked.contains(&sent.event_id)
                }
        });
    }

    /// Alerts that Alertmanager does not know, or knows as firing though they are resolved, or the other way round.
    fn news(
        &mut self,
        current: &BTreeMap<Labels, Match<'_>>,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> AlertBatch {
        let mut batch = AlertBatch::default();
        let mut room = self.max_alerts.saturating_sub(self.sent.len());
        self.skipped = 0;
        for (labels, matched) in current {
            let is_news = match self.sent.get(labels) {
                Some(sent) => sent.alert.is_resolved != matched.is_resolved(),
                None if room > 0 => {
                    room -= 1;
                    true
                }
                None => {
                    self.skipped += 1;
                    false
                }
            };
            if is_news && batch.len() < MAX_BATCH {
                let alert = matched.alert(snapshot, now);
                batch.alerts.push((matched.tracked.event.id.clone(), alert));
            }
        }
        // Another alert has replaced it.
        let replaced = self
            .sent
            .iter()
            .filter(|(labels, sent)| !sent.alert.is_resolved && !current.contains_key(*labels));
        let room = MAX_BATCH.saturating_sub(batch.len());
        let resolved = replaced
            .take(room)
            .map(|(_, sent)| (sent.event_id.clone(), sent.alert.clone().resolved(now)));
        batch.alerts.extend(resolved);
        batch
    }

    /// Fills the batch with alerts that are to be sent again and are not in it.
    fn add_due(
        &self,
        batch: &mut AlertBatch,
        current: &BTreeMap<Labels, Match<'_>>,
        snapshot: &Snapshot,
        now: Moment,
    ) {
        let news: BTreeSet<Labels> = batch.alerts().map(|alert| alert.labels.clone()).collect();
        let due = self.sent.iter().filter(|(labels, sent)| {
            self.due(sent, snapshot, now.wall) <= now.monotonic && !news.contains(*labels)
        });
        let room = MAX_BATCH.saturating_sub(batch.len());
        for (labels, sent) in due.take(room) {
            let alert = match current.get(labels) {
                Some(matched) => matched.alert(snapshot, now.wall),
                None => sent.alert.clone().resolved(now.wall),
            };
            batch.alerts.push((sent.event_id.clone(), alert));
        }
    }
}

#[cfg(test)]
mod tests;
