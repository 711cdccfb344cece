//! Maps a snapshot to alerts. Pure.
//!
//! An alert has the labels `alertname`, `severity`, `event_id`, `event_type` and `event_source`, those of
//! `--alertmanager.external-label`, and no others. The reporting VM, the status and the remaining time are in the
//! annotations: a changed label would be a new alert.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use crate::{
    azure::event::EventScope,
    base::{
        text::label_value,
        time::{Moment, Timestamp},
    },
    core::{
        assessment::{AlertRule, AlertState, EventAlert, judge},
        lifecycle::TrackedEvent,
        snapshot::Snapshot,
    },
};

/// Alertmanager resolves an alert that was not sent again for this long. The rules keep alerts of a dead VM as long.
pub(super) const ALERT_TTL: Duration = Duration::from_mins(15);
/// How long an alert goes on after the end of its event. The rules keep it as long, so that its last text is sent.
pub(super) const END_TTL: Duration = Duration::from_secs(150);
/// The time to live in place of [`ALERT_TTL`] while a Reboot or Redeploy is due or has started: the VM is down, and cannot send the alert again.
const RESTART_TTL: Duration = Duration::from_hours(2);

const RUNBOOKS: &str = "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs/runbooks.md";

/// The labels that each alert has, or can have, by its event.
pub(crate) const ALERT_LABELS: [&str; 5] = [
    "alertname",
    "severity",
    "event_id",
    "event_type",
    "event_source",
];

/// The identity of an alert.
pub(super) type Labels = BTreeMap<String, String>;

/// An alert in the format of Alertmanager's API v2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    pub(super) labels: Labels,
    pub(super) annotations: BTreeMap<&'static str, String>,
    /// When the event was first seen.
    #[serde(serialize_with = "rfc3339")]
    pub(super) starts_at: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub(super) ends_at: Timestamp,
    /// The event has ended, or another alert has replaced this one.
    #[serde(skip)]
    pub(super) is_resolved: bool,
}

/// An alert of an event, which is built only if it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    rule: AlertRule,
    pub(super) resolved_at: Option<Timestamp>,
    /// It turned out to be about other VMs, and ends at once.
    pub(super) is_withdrawn: bool,
}

impl Match {
    /// `None` for an alert of which nobody is notified, and for one that may never have applied.
    fn new(alert: EventAlert<'_>) -> Option<Self> {
        let resolved_at = match alert.state {
            AlertState::Firing => None,
            AlertState::Ended(at) | AlertState::Obsolete(Some(at)) => Some(at),
            AlertState::Obsolete(None) => return None,
        };
        let rule = alert.rule;
        rule.is_notified().then_some(Self {
            rule,
            resolved_at,
            is_withdrawn: false,
        })
    }

    pub(super) fn ended(self, at: Timestamp) -> Self {
        let resolved_at = Some(at);
        Self {
            resolved_at,
            ..self
        }
    }

    pub(super) fn withdrawn(self, at: Timestamp) -> Self {
        Self {
            is_withdrawn: true,
            ..self.ended(at)
        }
    }

    /// The `endsAt` of an alert that was resolved at this time of the event, by the wall clock.
    pub(super) fn ends_at(
        self,
        tracked: &TrackedEvent,
        resolved_at: Timestamp,
        now: Moment,
    ) -> Timestamp {
        let resolved_at = now.wall.before(tracked.since(resolved_at, now));
        if self.is_withdrawn {
            resolved_at
        } else {
            resolved_at.after(END_TTL)
        }
    }

    /// The identity of the alert, with the `external` labels.
    pub(super) fn labels(self, tracked: &TrackedEvent, external: &Labels) -> Labels {
        let mut labels = external.clone();
        let mut insert = |name: &str, value| {
            labels.insert(name.to_owned(), label_value(value).into_owned());
        };
        insert("alertname", self.rule.name);
        insert("severity", self.rule.severity.as_str());
        insert("event_type", self.rule.event_type(tracked).as_str());
        if let Some(source) = tracked.shown.source_text() {
            insert("event_source", source);
        }
        let id = tracked.shown.id.label().into_owned();
        labels.insert("event_id".to_owned(), id);
        labels
    }

    /// The alert of the event that matched.
    pub(super) fn alert(
        self,
        tracked: &TrackedEvent,
        snapshot: &Snapshot,
        labels: Labels,
        now: Moment,
    ) -> Alert {
        let words = judge(tracked, now).words(snapshot);
        let description = match self.resolved_at {
            Some(_) => words.description_without_advice(),
            None => words.description(),
        };
        let anchor = self.rule.name.to_ascii_lowercase();
        let annotations = BTreeMap::from([
            ("summary", words.summary),
            ("description", description),
            ("runbook_url", format!("{RUNBOOKS}#{anchor}")),
        ]);
        let ends_at = match self.resolved_at {
            Some(at) => self.ends_at(tracked, at, now),
            None => now.wall.after(self.time_to_live(tracked, now.wall)),
        };
        Alert {
            labels,
            annotations,
            // The clock may have been set back, and Alertmanager rejects an end before the start.
            starts_at: tracked.first_seen_at.min(ends_at),
            ends_at,
            is_resolved: self.resolved_at.is_some(),
        }
    }

    fn time_to_live(self, tracked: &TrackedEvent, now: Timestamp) -> Duration {
        let not_before = tracked.shown.not_before;
        let is_due = tracked.running_since().is_some()
            || not_before.is_none_or(|not_before| not_before <= now.after(ALERT_TTL));
        // An alert about an approval ends when the restart begins.
        let is_restart = tracked.shown.event_type.restarts_vm()
            && tracked.scope == EventScope::Own
            && !tracked.shown.is_advisory()
            && !self.rule.ends_with_start();
        if is_restart && is_due {
            RESTART_TTL
        } else {
            ALERT_TTL
        }
    }
}

/// The alerts of an event that fire at `now` or, after its end or after it left this VM, those that fired then.
pub(super) fn matches(tracked: &TrackedEvent, now: Moment) -> impl Iterator<Item = Match> {
    let alerts = judge(tracked, now).alerts.into_iter();
    alerts.filter_map(Match::new)
}

fn rfc3339<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.rfc3339_millis())
}

#[cfg(test)]
mod tests;
