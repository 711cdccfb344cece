//! What one Alertmanager is told: all alerts of a snapshot, at each change and by an interval. Pure.
//!
//! An alert that fires is sent with an `endsAt` ahead of time. The end of one is sent with the words of the event as it
//! is now, and again once its `endsAt` has passed: Alertmanager takes no earlier `endsAt` while it is in the future. It
//! is sent until it is accepted, or until what was accepted before has passed.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    alert::{Alert, Labels, Match, matches},
    target::PushTiming,
};
use crate::{
    azure::event::EventScope,
    base::time::{Moment, Timestamp},
    core::{
        lifecycle::{PAST_RETENTION, TrackedEvent},
        snapshot::Snapshot,
    },
};

/// The alerts that one Alertmanager is to know, and what it accepted of them.
#[derive(Debug)]
pub struct AlertQueue {
    timing: PushTiming,
    /// Those of `--alertmanager.external-label`.
    labels: Labels,
    alerts: BTreeMap<Labels, KnownAlert>,
}

#[derive(Debug)]
struct KnownAlert {
    /// The event as it is now.
    tracked: Arc<TrackedEvent>,
    matched: Match,
    /// When Alertmanager ends it if no other push is accepted.
    accepted_until: Option<Timestamp>,
    /// What it accepted last; `None` since a change.
    accepted: Option<PushedState>,
    /// It was sent since its last change, and perhaps not accepted.
    is_tried: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PushedState {
    Firing,
    /// It is sent with the text of the end. For Alertmanager the alert still fires: of two times of the end in the future it takes
    /// the later one, which is that of the last push before the end.
    Ended,
    /// Its `endsAt` has passed, so that Alertmanager resolves it.
    Resolved,
}

impl AlertQueue {
    /// Adds `labels` to each alert.
    pub fn new(timing: PushTiming, labels: Labels) -> Self {
        Self {
            timing,
            labels,
            alerts: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.alerts.is_empty()
    }

    /// Whether an alert is new, changed or over, and this was not accepted.
    pub(super) fn has_news(&self, now: Moment) -> bool {
        let mut alerts = self.alerts.values();
        alerts.any(|alert| alert.is_news(&self.timing, now))
    }

    /// Whether one of them was not sent yet.
    pub(super) fn has_untried_news(&self, now: Moment) -> bool {
        let mut alerts = self.alerts.values();
        alerts.any(|alert| !alert.is_tried && alert.is_news(&self.timing, now))
    }

    /// The alerts to send now, news first.
    pub fn next(&mut self, snapshot: &Snapshot, now: Moment) -> Vec<Alert> {
        let failure = snapshot.poll.failure.as_ref();
        let is_blind = failure.is_some_and(|failure| {
            now.monotonic - failure.since.monotonic >= self.timing.blind_after
        });
        let (mut news, mut again) = (Vec::new(), Vec::new());
        for (labels, known) in &mut self.alerts {
            let is_news = known.is_news(&self.timing, now);
            if is_news || known.is_sent_again(&self.timing, is_blind, now) {
                known.is_tried = true;
                let (tracked, labels) = (&known.tracked, labels.clone());
                let alert = known.matched.alert(tracked, snapshot, labels, now);
                if is_news { &mut news } else { &mut again }.push(alert);
            }
        }
        news.append(&mut again);
        news
    }

    /// Alertmanager accepted these alerts.
    pub fn accepted(&mut self, alerts: &[Alert], now: Moment) {
        for alert in alerts {
            let Some(known) = self.alerts.get_mut(&alert.labels) else {
                continue;
            };
            // An Alertmanager takes the later of two ends in the future, which is that of the last push before the end.
            if !alert.is_resolved {
                known.accepted_until = known.accepted_until.max(Some(alert.ends_at));
            } else if alert.ends_at <= now.wall {
                known.accepted_until = Some(alert.ends_at);
            }
            known.accepted = Some(known.state(&self.timing, now));
        }
    }

    /// Takes over the events of a snapshot.
    pub fn update(&mut self, snapshot: &Snapshot, now: Moment) {
        if snapshot.poll.last_success.is_none() {
            // The events are those of an earlier process.
            return;
        }
        let mut before = std::mem::take(&mut self.alerts);
        let events = || snapshot.events.iter().chain(snapshot.past.iter());
        let mut current = BTreeMap::<_, (_, Match)>::new();
        for tracked in events() {
            for matched in matches(tracked, now) {
                let labels = matched.labels(tracked, &self.labels);
                // An alert of another event whose ID has the same visible characters. One that fires goes before one that ended.
                let twin = current.get(&labels).map(|(_, twin)| twin);
                let is_twin_first =
                    |twin: &Match| twin.resolved_at.is_none() || matched.resolved_at.is_some();
                if !twin.is_some_and(is_twin_first) {
                    current.insert(labels, (tracked, matched));
                }
            }
        }
        for (labels, (tracked, matched)) in current {
            let alert = KnownAlert::new(tracked, matched, before.remove(&labels));
            self.alerts.insert(labels, alert);
        }
        let tracked: HashMap<_, _> = events()
            .map(|tracked| (&tracked.shown.id, tracked))
            .collect();
        for (labels, known) in before {
            let event = tracked.get(&known.tracked.shown.id);
            if let Some(alert) = known.without_match(event.copied(), now) {
                let is_over = alert.is_over(&self.timing, now);
                if !is_over {
                    self.alerts.insert(labels, alert);
                }
            }
        }
    }
}

impl KnownAlert {
    fn new(tracked: &Arc<TrackedEvent>, matched: Match, known: Option<Self>) -> Self {
        let mut alert = Self {
            tracked: Arc::clone(tracked),
            matched,
            accepted_until: None,
            accepted: None,
            is_tried: false,
        };
        if let Some(known) = known {
            alert.accepted_until = known.accepted_until;
            if known.matched == matched && known.tracked == *tracked {
                alert.accepted = known.accepted;
                alert.is_tried = known.is_tried;
            }
        }
        alert
    }

    /// The end of an alert that no event has any more; `None` if there is nothing to end. `event` is its event as it is
    /// now.
    fn without_match(self, event: Option<&Arc<TrackedEvent>>, now: Moment) -> Option<Self> {
        let Some(event) = event else {
            // Alertmanager ends the alerts of an event that is not tracked any more after their time to live.
            return self.matched.resolved_at.is_some().then_some(self);
        };
        self.accepted_until?;
        let resolved_at = self.matched.resolved_at.unwrap_or_else(|| event.time(now));
        // While the name of the VM or its resources were unknown, the event was shown as if it were one of this VM.
        let is_of_others = event.scope == EventScope::Other && event.left_at.is_none();
        let matched = if is_of_others {
            self.matched.withdrawn(resolved_at)
        } else {
            self.matched.ended(resolved_at)
        };
        Some(Self::new(event, matched, Some(self)))
    }

    fn state(&self, timing: &PushTiming, now: Moment) -> PushedState {
        let Some(resolved_at) = self.matched.resolved_at else {
            return PushedState::Firing;
        };
        let ended_for = self.tracked.since(resolved_at, now);
        if self.is_left_to_others()
            || !self.matched.is_withdrawn && ended_for < timing.resolve_after
        {
            PushedState::Ended
        } else {
            PushedState::Resolved
        }
    }

    /// The event goes on without this VM, and the VMs that it still names send the alert.
    fn is_left_to_others(&self) -> bool {
        let names = self.tracked.shown.resources.as_ref();
        self.tracked.scope == EventScope::Other
            && self.tracked.left_at.is_some()
            && self.tracked.is_pending()
            && names.is_some_and(|names| !names.is_empty())
    }

    fn is_news(&self, timing: &PushTiming, now: Moment) -> bool {
        self.accepted != Some(self.state(timing, now)) && !self.is_over(timing, now)
    }

    /// `is_blind`: its event may have ended, and if it names another VM, that one may have resolved the alert.
    fn is_sent_again(&self, timing: &PushTiming, is_blind: bool, now: Moment) -> bool {
        match (self.matched.resolved_at, self.state(timing, now)) {
            (Some(at), PushedState::Ended) => {
                !self.is_left_to_others() && now.wall < self.matched.ends_at(&self.tracked, at, now)
            }
            (_, PushedState::Resolved) => !self.is_over(timing, now),
            _ => !is_blind || self.tracked.names_only_this_vm(),
        }
    }

    /// Alertmanager has resolved it.
    fn is_over(&self, timing: &PushTiming, now: Moment) -> bool {
        let Some(resolved_at) = self.matched.resolved_at else {
            return false;
        };
        self.state(timing, now) == PushedState::Resolved
            && self.accepted_until.is_some_and(|until| until <= now.wall)
            || self.tracked.since(resolved_at, now) >= PAST_RETENTION
    }
}

#[cfg(test)]
mod tests;
