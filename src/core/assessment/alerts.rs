//! Which alerts an event has.
//!
//! | event | alert | severity |
//! |---|---|---|
//! | Preempt | `Preempt` | critical |
//! | Terminate | `Terminate` | warning |
//! | Reboot, Redeploy of source User that waits for its start | `UserInitiatedWaiting` | warning |
//! | Reboot, Redeploy that was Started at first sight, without a `NotBefore`, while no document can have been missed | `HardwareFailure` | critical |
//! | Reboot, Redeploy due within the hour, Started, or without a `NotBefore` | `Reboot`, `Redeploy` | critical |
//! | the same, first seen an hour to a day ahead | `Reboot`, `Redeploy` | warning |
//! | Freeze of 10 s or more, or of unknown duration | `Freeze` | warning |
//! | Freeze of less than 10 s | `Freeze` | info |
//! | Freeze, Reboot, Redeploy not of source User, first seen a day or more ahead | `DegradedHardware` | warning |
//! | any of them that has been Started for half an hour, but no Freeze of 0 s | `Stuck` | warning |
//! | advisory | `Advisory` | info |
//! | another type | `UnknownType` | warning |
//!
//! The names have the prefix `AzureScheduledEvent`. A higher severity is a second alert: an alert that an event has got
//! stays until the end of the event. One that was critical stays critical, also if the event is postponed. An event
//! without a source (API versions before 2019-08-01) is treated as one of source Platform.

use super::{
    concerns_vm,
    down_vm::{STUCK_AFTER, explains_down_vm},
    over_at,
};
use crate::{
    azure::event::{Event, EventKind, EventScope, EventType, Impact, Source},
    base::{
        text::label_value,
        time::{Moment, Timestamp},
    },
    core::lifecycle::{FirstSight, IMMINENT_SECONDS, TrackedEvent},
};

/// Azure announces only predicted hardware failures more than a day ahead.
const PREDICTED_SECONDS: f64 = 86_400.0;
/// A pause of this length or more breaks connections.
pub(super) const LONG_FREEZE_SECONDS: u64 = 10;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AlertRule {
    pub(crate) name: &'static str,
    pub(crate) severity: &'static str,
}

impl AlertRule {
    /// The type in the labels of this alert of the event.
    pub(crate) fn event_type(self, tracked: &TrackedEvent) -> &EventType {
        label_type(self, tracked, &tracked.shown.event_type)
    }

    /// It is about an approval, and ends when the event starts.
    pub(crate) fn ends_with_start(self) -> bool {
        self == USER_WAITING
    }

    /// Not one for inhibition only.
    pub(crate) fn is_notified(self) -> bool {
        self != IN_PROGRESS
    }
}

const fn rule(name: &'static str, severity: &'static str) -> AlertRule {
    AlertRule { name, severity }
}

pub(super) const HARDWARE_FAILURE: AlertRule =
    rule("AzureScheduledEventHardwareFailure", "critical");
pub(super) const DEGRADED_HARDWARE: AlertRule =
    rule("AzureScheduledEventDegradedHardware", "warning");
pub(super) const USER_WAITING: AlertRule =
    rule("AzureScheduledEventUserInitiatedWaiting", "warning");
pub(super) const STUCK: AlertRule = rule("AzureScheduledEventStuck", "warning");
const ADVISORY: AlertRule = rule("AzureScheduledEventAdvisory", "info");
/// For the inhibition of the down alerts of this VM. Nobody is notified of it.
const IN_PROGRESS: AlertRule = rule("AzureScheduledEventInProgress", "info");

/// An alert that an event has or had, with the labels that identify it besides the event's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventAlert<'a> {
    pub(crate) rule: AlertRule,
    pub(crate) event_type: &'a EventType,
    /// Empty if Azure gave none.
    pub(crate) source: &'a str,
    pub(crate) state: AlertState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlertState {
    Firing,
    /// With the event, or when it no longer named this VM.
    Ended(Timestamp),
    /// It does not apply any more. With the time if the start or the end of the event is the reason; otherwise the event
    /// was changed, and it is possible that the alert never applied.
    Obsolete(Option<Timestamp>),
}

/// The alerts of an event at `now`. After its end, those that it had then.
pub(crate) fn alerts(tracked: &TrackedEvent, now: Moment) -> Vec<EventAlert<'_>> {
    if !concerns_vm(tracked, now) {
        return Vec::new();
    }
    let over_at = over_at(tracked);
    let at = over_at.map_or(now, |at| tracked.moment(at));
    let state = over_at.map_or(AlertState::Firing, AlertState::Ended);
    let event = &tracked.shown;
    let mut alerts: Vec<_> = rules(&tracked.shown.kind(), tracked, at)
        .into_iter()
        .map(|rule| {
            let started_at = tracked.running_since().filter(|_| rule == USER_WAITING);
            let state = match started_at {
                Some(at) => AlertState::Obsolete(Some(at)),
                // It warns of an event that does not end.
                None if rule == STUCK && over_at.is_some() => AlertState::Obsolete(over_at),
                None => state,
            };
            alert(
                rule,
                tracked,
                &event.event_type,
                event.source.as_ref(),
                state,
            )
        })
        .collect();
    alerts.extend(in_progress(tracked, now));
    for kind in &tracked.former_kinds {
        let rules = rules(kind, tracked, at);
        for rule in rules.into_iter().chain([IN_PROGRESS]) {
            let (event_type, source) = (&kind.event_type, kind.source.as_ref());
            let state = AlertState::Obsolete(None);
            let former = alert(rule, tracked, event_type, source, state);
            // As labels, which do not show all characters.
            let is_same = |other: &EventAlert<'_>| {
                let [one, two] = [other, &former].map(|alert| {
                    let event_type = label_value(alert.event_type.as_str());
                    (alert.rule, event_type, label_value(alert.source))
                });
                one == two
            };
            if !alerts.iter().any(is_same) {
                alerts.push(former);
            }
        }
    }
    alerts
}

fn alert<'a>(
    rule: AlertRule,
    tracked: &'a TrackedEvent,
    event_type: &'a EventType,
    source: Option<&'a Source>,
    state: AlertState,
) -> EventAlert<'a> {
    EventAlert {
        rule,
        event_type: label_type(rule, tracked, event_type),
        source: source.map_or("", Source::as_str),
        state,
    }
}

/// A critical alert of a restart keeps its type, so that the same danger does not page twice.
fn label_type<'a>(
    rule: AlertRule,
    tracked: &'a TrackedEvent,
    event_type: &'a EventType,
) -> &'a EventType {
    if event_type.restarts_vm() && rule.severity == "critical" {
        urgent_type(tracked, event_type)
    } else {
        event_type
    }
}

/// The type that a restart had when it was urgent first.
fn urgent_type<'a>(tracked: &'a TrackedEvent, event_type: &'a EventType) -> &'a EventType {
    let first = Some(&tracked.urgent_type).filter(|first| first.restarts_vm());
    first.unwrap_or(event_type)
}

/// The rules that match a pending event of this kind at a point in time.
pub(super) fn rules(kind: &EventKind, tracked: &TrackedEvent, at: Moment) -> Vec<AlertRule> {
    if kind.is_advisory {
        return vec![ADVISORY];
    }
    let spec = kind.event_type.spec();
    let due = rule(spec.alert, spec.severity);
    let is_user_initiated = kind.source == Some(Source::User);
    let is_first_seen_started = tracked.first_sight != FirstSight::Waiting;
    let is_imminent = tracked.has_been_imminent(at.wall);
    let notice = notice_seconds(tracked);
    let is_predicted = notice.is_some_and(|notice| notice >= PREDICTED_SECONDS);
    let is_ahead = notice.is_some_and(|notice| notice >= IMMINENT_SECONDS) && !is_predicted;
    let is_without_interruption = spec.impact == Impact::Pause && kind.duration_seconds == Some(0);
    let mut rules: Vec<AlertRule> = match spec.impact {
        // Where Azure approves it automatically, it is first seen Started and never waits.
        Impact::Restart if is_user_initiated && is_first_seen_started => Vec::new(),
        Impact::Restart if is_user_initiated => vec![USER_WAITING],
        // Azure reports a failed host as a Reboot or Redeploy that is Started when first seen. If a document may have been
        // missed, it may have been announced.
        Impact::Restart
            if tracked.first_sight == FirstSight::StartedUnannounced
                && tracked.shown.not_before.is_none() =>
        {
            vec![HARDWARE_FAILURE]
        }
        Impact::Restart => {
            let urgent = urgent_type(tracked, &kind.event_type).spec().alert;
            let imminent = is_imminent.then_some(rule(urgent, due.severity));
            let ahead = is_ahead.then_some(rule(spec.alert, "warning"));
            imminent.into_iter().chain(ahead).collect()
        }
        Impact::Pause if !is_imminent && is_predicted && !is_without_interruption => Vec::new(),
        Impact::Pause if is_short(kind.duration_seconds) => vec![rule(spec.alert, "info")],
        Impact::Pause | Impact::Removal | Impact::None | Impact::Unknown => vec![due],
    };
    let is_host_service = is_service_of_host(&kind.event_type, kind.source.as_ref());
    if is_predicted && is_host_service && !is_without_interruption {
        rules.push(DEGRADED_HARDWARE);
    }
    let running_since = tracked.running_since();
    let is_late = running_since.is_some_and(|since| tracked.since(since, at) >= STUCK_AFTER);
    if is_late && !is_without_interruption {
        rules.push(STUCK);
    }
    rules
}

/// The alert for inhibition applies while the event explains that this VM is down. It is there from the first sight
/// on, so that its end is seen.
fn in_progress(tracked: &TrackedEvent, now: Moment) -> Option<EventAlert<'_>> {
    let event = &tracked.shown;
    let is_pause = event.event_type.spec().impact == Impact::Pause;
    let is_harmless = event.is_advisory() || is_pause && is_short(event.duration_seconds);
    let is_own = tracked.scope == EventScope::Own;
    if !is_own && tracked.left_at.is_none() || is_harmless && tracked.former_kinds.is_empty() {
        return None;
    }
    let is_explained = is_own && !is_harmless && explains_down_vm(tracked, now);
    let state = if is_explained {
        AlertState::Firing
    } else {
        AlertState::Obsolete(None)
    };
    let (event_type, source) = (&event.event_type, event.source.as_ref());
    Some(alert(IN_PROGRESS, tracked, event_type, source, state))
}

pub(super) fn is_short(duration_seconds: Option<u64>) -> bool {
    duration_seconds.is_some_and(|seconds| seconds < LONG_FREEZE_SECONDS)
}

/// The time from first sight to the first `NotBefore`.
pub(super) fn notice_seconds(tracked: &TrackedEvent) -> Option<f64> {
    let change = tracked.reschedulings.first();
    let first = change.map(|change| change.from.unwrap_or(change.to));
    let not_before = first.or(tracked.shown.not_before)?;
    Some(not_before.seconds_from(tracked.first_seen_at))
}

/// Maintenance by Azure that a move of the VM to another host makes unnecessary.
fn is_service_of_host(event_type: &EventType, source: Option<&Source>) -> bool {
    let impact = event_type.spec().impact;
    matches!(impact, Impact::Pause | Impact::Restart) && source != Some(&Source::User)
}

/// Whether a move of the VM to another host makes the event unnecessary. Without an interruption there is nothing to
/// avoid.
pub(super) fn is_avoidable(event: &Event) -> bool {
    is_service_of_host(&event.event_type, event.source.as_ref()) && !event.is_without_interruption()
}
