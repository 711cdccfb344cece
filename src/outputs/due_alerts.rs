//! All alerts that a receiver is to have, as a function of a snapshot and the time. Pure.
//!
//! An alert has the labels `alertname`, `severity`, `event_id`, `event_type` and `event_source`, `owner` if the VM has one
//! (`--vm.owner-tag`), those of `--alertmanager.external-label`, and no others. The reporting VM, the status and the
//! remaining time are in the annotations: a changed label would be a new alert.
//!
//! | | `endsAt` |
//! |---|---|
//! | the event goes on | ahead of time |
//! | its first 150 seconds after the end | 150 seconds after the end, so that the words about the end are shown |
//! | until four minutes after the end | not sent: the rules end it, and a push would fire it again |
//! | then, for two hours | the end |
//! | it does not apply any more | the change |
//! | the VM has another owner, and no other VM can have this one | the change, four minutes later |

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

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

/// Polls that have failed for this long may hide the end of an event.
const BLIND_AFTER: Duration = Duration::from_mins(1);
/// How long an alert goes on after the end of its event. The rules keep it as long, so that its last text is sent.
pub(super) const END_TTL: Duration = Duration::from_secs(150);
/// The time from the end of an event to the push that resolves its alert. Until then Alertmanager shows how it ended.
/// Longer than Prometheus can send the alert: 150 s after the last evaluation before the scrape that sees the end, for
/// scrapes once a minute and evaluations every 30 s (150 + 60 + 30 s). A later message of Prometheus would fire the alert
/// again.
const RESOLVE_AFTER: Duration = Duration::from_mins(4);
/// How long the alerts of an event are ended that turned out to be one of other VMs. These send them.
const DISOWNED_FOR: Duration = Duration::from_secs(30);

/// The labels that each alert has, or can have, by its event.
pub(crate) const ALERT_LABELS: [&str; 5] = [
    "alertname",
    "severity",
    "event_id",
    "event_type",
    "event_source",
];

/// That of the value of the tag of `--vm.owner-tag`.
pub(crate) const OWNER_LABEL: &str = "owner";

/// The identity of an alert.
pub(super) type Labels = BTreeMap<String, String>;

/// An alert that is to be sent. Its words are made only then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueAlert {
    pub(super) tracked: Arc<TrackedEvent>,
    pub(super) rule: AlertRule,
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

/// All alerts of a snapshot: those that fire first, of the newest changes first. `external` labels are added to each.
pub fn due_alerts(snapshot: &Snapshot, external: &Labels, now: Moment) -> Vec<DueAlert> {
    if snapshot.poll.last_success.is_none() {
        // The events are those of an earlier process.
        return Vec::new();
    }
    let failure = snapshot.poll.failure.as_ref();
    let is_blind = failure.is_some_and(|it| now.monotonic - it.since.monotonic >= BLIND_AFTER);
    let events = snapshot.events.iter().chain(snapshot.past.iter());
    let mut alerts: Vec<_> = events
        .filter(|tracked| !is_left_to_others(tracked))
        .flat_map(|tracked| {
            let alerts = judge(tracked, now).alerts.into_iter();
            // Prometheus may still send that of a former owner, and so may other VMs of the event.
            let owned_for = tracked.owner_changed_at.map(|at| tracked.since(at, now));
            let ends_former = tracked.names_only_this_vm() && owned_for >= Some(RESOLVE_AFTER);
            let alerts =
                alerts.filter(move |alert| ends_former || alert.owner == tracked.owner.as_deref());
            alerts.filter_map(|alert| {
                let progress = progress(alert.state, tracked, now)?;
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
fn progress(state: AlertState, tracked: &TrackedEvent, now: Moment) -> Option<Progress> {
    let (at, is_withdrawn) = match state {
        AlertState::Firing => return Some(Progress::Firing),
        AlertState::Ended(at) | AlertState::Obsolete(Some(at)) => (at, false),
        AlertState::Obsolete(None) => (tracked.changed_at, true),
    };
    match tracked.since(at, now) {
        passed if passed >= PAST_RETENTION => None,
        passed if is_withdrawn || passed >= RESOLVE_AFTER => Some(Progress::Ended(at)),
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
        let owner = alert
            .owner
            .map(|owner| (OWNER_LABEL.to_owned(), owner.to_owned()));
        labels.extend(owner);
        alert.rule.is_notified().then(|| Self {
            tracked: Arc::clone(tracked),
            rule: alert.rule,
            labels,
            progress,
        })
    }
}
