//! All alerts that an Alertmanager is to have, as a function of a snapshot and the time. Pure.
//!
//! An alert has the labels `alertname`, `severity`, `event_id`, `event_type` and `event_source`, those of
//! `--alertmanager.external-label`, and no others. The reporting VM, the status and the remaining time are in the
//! annotations: a changed label would be a new alert.
//!
//! | | `endsAt` |
//! |---|---|
//! | the event goes on | ahead of time: [`ALERT_TTL`] or [`RESTART_TTL`] |
//! | its first 150 seconds after the end | 150 seconds after the end, so that the words about the end are shown |
//! | until four minutes after the end | not sent: the rules end it, and a push would fire it again |
//! | then, for two hours | the end |
//! | it does not apply any more | the change |

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};

use super::target::PushTiming;
use crate::{
    azure::event::EventScope,
    base::{
        text::label_value,
        time::{Moment, Timestamp},
    },
    core::{
        assessment::{AlertRule, AlertState, EventAlert, judge},
        lifecycle::{PAST_RETENTION, TrackedEvent, TransitionKind},
        snapshot::Snapshot,
    },
};

/// Alertmanager resolves an alert that was not sent again for this long. The rules keep alerts of a dead VM as long.
const ALERT_TTL: Duration = Duration::from_mins(15);
/// The time to live in place of [`ALERT_TTL`] while a Reboot or Redeploy is due or has started: the VM is down, and cannot send the alert again.
const RESTART_TTL: Duration = Duration::from_hours(2);
/// How long an alert goes on after the end of its event. The rules keep it as long, so that its last text is sent.
const END_TTL: Duration = Duration::from_secs(150);
/// How long the alerts of an event are ended that turned out to be one of other VMs. These send them.
const DISOWNED_FOR: Duration = Duration::from_secs(30);

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

/// An alert that is to be sent. Its words are made only then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueAlert {
    tracked: Arc<TrackedEvent>,
    rule: AlertRule,
    pub(super) labels: Labels,
    pub(super) progress: Progress,
}

/// With times of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Firing,
    /// It ended then, and Alertmanager is not to resolve it yet.
    Ending(Timestamp),
    Ended(Timestamp),
}

/// How far the clocks of an Alertmanager, one for each address, are ahead of that of this VM at most, and behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockDifference {
    pub(super) ahead: Duration,
    pub(super) behind: Duration,
}

/// All alerts of a snapshot: those that fire first, of the newest changes first. `external` labels are added to each.
pub fn due_alerts(
    snapshot: &Snapshot,
    external: &Labels,
    timing: &PushTiming,
    now: Moment,
) -> Vec<DueAlert> {
    if snapshot.poll.last_success.is_none() {
        // The events are those of an earlier process.
        return Vec::new();
    }
    let failure = snapshot.poll.failure.as_ref();
    let is_blind = failure
        .is_some_and(|failure| now.monotonic - failure.since.monotonic >= timing.blind_after);
    let events = snapshot.events.iter().chain(snapshot.past.iter());
    let mut alerts: Vec<_> = events
        .filter(|tracked| !is_left_to_others(tracked))
        .flat_map(|tracked| {
            let alerts = judge(tracked, now).alerts.into_iter();
            alerts.filter_map(|alert| {
                let progress = progress(alert.state, tracked, timing, now)?;
                DueAlert::new(tracked, &alert, progress, external)
            })
        })
        // While polls fail, an event may have ended, and another VM that it names may have resolved the alert.
        .filter(|alert| {
            let may_be_over = is_blind && alert.progress == Progress::Firing;
            !may_be_over || alert.tracked.names_only_this_vm()
        })
        .chain(disowned(snapshot, external, now))
        .collect();
    alerts.sort_by_key(|alert| {
        let is_over = alert.progress != Progress::Firing;
        (is_over, Reverse(alert.tracked.changed_at))
    });
    // Ids of events can have the same visible characters.
    let mut seen = HashSet::new();
    alerts.retain(|alert| seen.insert(alert.labels.clone()));
    alerts
}

/// The event goes on without this VM, and the VMs that it still names send its alerts.
fn is_left_to_others(tracked: &TrackedEvent) -> bool {
    let names = tracked.shown.resources.as_ref();
    tracked.scope == EventScope::Other && names.is_some_and(|names| !names.is_empty())
}

/// `None` if nothing is to be sent.
fn progress(
    state: AlertState,
    tracked: &TrackedEvent,
    timing: &PushTiming,
    now: Moment,
) -> Option<Progress> {
    let (at, is_withdrawn) = match state {
        AlertState::Firing => return Some(Progress::Firing),
        AlertState::Ended(at) | AlertState::Obsolete(Some(at)) => (at, false),
        AlertState::Obsolete(None) => (tracked.changed_at, true),
    };
    match tracked.since(at, now) {
        passed if passed >= PAST_RETENTION => None,
        passed if is_withdrawn || passed >= timing.resolve_after => Some(Progress::Ended(at)),
        passed if passed < END_TTL => Some(Progress::Ending(at)),
        _ => None,
    }
}

/// The alerts of events that were shown as if they were of this VM, while its name or their resources were unknown.
fn disowned(snapshot: &Snapshot, external: &Labels, now: Moment) -> impl Iterator<Item = DueAlert> {
    let was_scope = EventScope::Unknown;
    let entries = snapshot.journal.after(0).map(|entry| &entry.transition);
    let entries = entries.filter(move |it| {
        it.kind == TransitionKind::Amended { was_scope }
            && it.tracked.scope == EventScope::Other
            && now.monotonic - it.at.monotonic < DISOWNED_FOR
    });
    entries.flat_map(move |it| {
        let mut was = TrackedEvent::clone(&it.tracked);
        was.scope = was_scope;
        let ended = Progress::Ended(was.time(it.at));
        let alerts = judge(&was, now).alerts.into_iter();
        let alerts = alerts.filter_map(|alert| DueAlert::new(&it.tracked, &alert, ended, external));
        alerts.collect::<Vec<_>>()
    })
}

impl DueAlert {
    /// `None` for an alert of which nobody is notified.
    fn new(
        tracked: &Arc<TrackedEvent>,
        alert: &EventAlert<'_>,
        progress: Progress,
        external: &Labels,
    ) -> Option<Self> {
        let mut labels = external.clone();
        let id = tracked.shown.id.label().into_owned();
        labels.insert("event_id".to_owned(), id);
        for (name, value) in [
            ("alertname", alert.rule.name),
            ("severity", alert.rule.severity.as_str()),
            ("event_type", alert.event_type.as_str()),
            ("event_source", alert.source),
        ] {
            labels.insert(name.to_owned(), label_value(value).into_owned());
        }
        if alert.source.is_empty() {
            labels.remove("event_source");
        }
        alert.rule.is_notified().then(|| Self {
            tracked: Arc::clone(tracked),
            rule: alert.rule,
            labels,
            progress,
        })
    }

    /// What is sent at `now`, in the format of Alertmanager's API v2. Its times hold by both clocks.
    pub fn json(&self, snapshot: &Snapshot, clocks: ClockDifference, now: Moment) -> Value {
        let tracked = &self.tracked;
        let words = judge(tracked, now).words(snapshot);
        let description = match self.progress {
            Progress::Firing => words.description(),
            _ => words.description_without_advice(),
        };
        let wall = |at| now.wall.before(tracked.since(at, now));
        let ends_at = match self.progress {
            Progress::Firing => now.wall.after(self.time_to_live(now.wall) + clocks.ahead),
            Progress::Ending(at) => wall(at).after(END_TTL + clocks.ahead),
            Progress::Ended(at) => wall(at).before(clocks.behind),
        };
        // The clock may have been set back, and Alertmanager rejects an end before the start.
        let starts_at = tracked.first_seen_at.min(ends_at);
        json!({
            "labels": self.labels,
            "annotations": {
                "summary": words.summary,
                "description": description,
                "runbook_url": format!("{RUNBOOKS}#{}", self.rule.name.to_ascii_lowercase()),
            },
            "startsAt": starts_at.rfc3339_millis(),
            "endsAt": ends_at.rfc3339_millis(),
        })
    }

    fn time_to_live(&self, now: Timestamp) -> Duration {
        let tracked = &self.tracked;
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

#[cfg(test)]
mod tests;
