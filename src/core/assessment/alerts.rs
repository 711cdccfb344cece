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

use std::time::Duration;

use super::concerns_vm;
use crate::{
    azure::event::{Event, EventKind, EventScope, EventType, Impact, Severity, Source},
    base::{
        text::label_value,
        time::{Moment, Timestamp},
    },
    core::lifecycle::{FirstSight, IMMINENT_SECONDS, Phase, TrackedEvent},
};

/// Azure announces only predicted hardware failures more than a day ahead.
const PREDICTED_SECONDS: f64 = 86_400.0;
/// A pause of this length or more breaks connections.
const LONG_FREEZE_SECONDS: u64 = 10;
/// Azure usually closes an event within ten minutes of its start.
pub(super) const STUCK_AFTER: Duration = Duration::from_mins(30);
/// An event explains that its VM is down from this long before `NotBefore`, and for as long after its end.
const DOWN_MARGIN: Duration = Duration::from_mins(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AlertRule {
    pub(crate) name: &'static str,
    pub(crate) severity: Severity,
}

impl AlertRule {
    /// It is about an approval, and ends when the event starts.
    pub(crate) fn ends_with_start(self) -> bool {
        self == USER_WAITING
    }

    /// Not one for inhibition only.
    pub(crate) fn is_notified(self) -> bool {
        self != IN_PROGRESS
    }
}

const fn rule(name: &'static str, severity: Severity) -> AlertRule {
    AlertRule { name, severity }
}

pub(super) const HARDWARE_FAILURE: AlertRule =
    rule("AzureScheduledEventHardwareFailure", Severity::Critical);
pub(super) const DEGRADED_HARDWARE: AlertRule =
    rule("AzureScheduledEventDegradedHardware", Severity::Warning);
pub(super) const USER_WAITING: AlertRule =
    rule("AzureScheduledEventUserInitiatedWaiting", Severity::Warning);
pub(super) const STUCK: AlertRule = rule("AzureScheduledEventStuck", Severity::Warning);
const ADVISORY: AlertRule = rule("AzureScheduledEventAdvisory", Severity::Info);
/// For the inhibition of the down alerts of this VM. Nobody is notified of it.
const IN_PROGRESS: AlertRule = rule("AzureScheduledEventInProgress", Severity::Info);

/// An alert that an event has or had, with the labels that identify it besides the event's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventAlert<'a> {
    pub(crate) rule: AlertRule,
    pub(crate) event_type: &'a EventType,
    /// Empty if Azure gave none.
    pub(crate) source: &'a str,
    pub(crate) owner: Option<&'a str>,
    pub(crate) state: AlertState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlertState {
    Firing,
    /// With the event, or when it no longer named this VM.
    Ended(Timestamp),
    /// It does not apply any more: with the time since a start or end, without it after a change of the event.
    Obsolete(Option<Timestamp>),
}

/// The alerts of an event that these rules match.
pub(super) fn alerts<'a>(
    tracked: &'a TrackedEvent,
    rules: &[AlertRule],
    over_at: Option<Timestamp>,
    now: Moment,
) -> Vec<EventAlert<'a>> {
    if !concerns_vm(tracked, now) {
        return Vec::new();
    }
    let at = over_at.map_or(now, |at| tracked.moment(at));
    let state = over_at.map_or(AlertState::Firing, AlertState::Ended);
    let event = &tracked.shown;
    let (event_type, source) = (&event.event_type, event.source.as_ref());
    let alerts = rules.iter().map(|rule| {
        let started_at = tracked.running_since().filter(|_| *rule == USER_WAITING);
        let state = match started_at {
            Some(at) => AlertState::Obsolete(Some(at)),
            // It warns of an event that does not end.
            None if *rule == STUCK && over_at.is_some() => AlertState::Obsolete(over_at),
            None => state,
        };
        alert(*rule, tracked, event_type, source, state)
    });
    let mut alerts: Vec<_> = alerts.chain(in_progress(tracked, now)).collect();
    for kind in &tracked.former_kinds {
        let rules = self::rules(kind, tracked, at);
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
    let current = alerts.clone();
    for owner in &tracked.former_owners {
        alerts.extend(current.iter().map(|alert| EventAlert {
            owner: owner.as_deref(),
            state: AlertState::Obsolete(tracked.owner_changed_at),
            ..*alert
        }));
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
    // A critical alert of a restart keeps its type, so that the same danger does not page twice.
    let is_page = event_type.restarts_vm() && rule.severity == Severity::Critical;
    let page_type = is_page.then(|| urgent_type(tracked, event_type));
    EventAlert {
        rule,
        event_type: page_type.unwrap_or(event_type),
        source: source.map_or("", Source::as_str),
        owner: tracked.owner.as_deref(),
        state,
    }
}

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
            let ahead = is_ahead.then_some(rule(spec.alert, Severity::Warning));
            imminent.into_iter().chain(ahead).collect()
        }
        Impact::Pause if !is_imminent && is_predicted && !is_without_interruption => Vec::new(),
        Impact::Pause if is_short(kind.duration_seconds) => vec![rule(spec.alert, Severity::Info)],
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

/// The alert for inhibition. It is there from the first sight on, so that its end is seen.
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

/// From five minutes before its start, for half an hour after it, and for five minutes after its end. Not an event of a
/// user that has not started.
fn explains_down_vm(tracked: &TrackedEvent, now: Moment) -> bool {
    let event = &tracked.shown;
    let seen_at = match tracked.started_at {
        Some(at) if tracked.phase() != Phase::Scheduled => Some(at),
        _ if event.source == Some(Source::User) => return false,
        _ => tracked.approval.last_step_at(),
    };
    // `NotBefore` is a time of Azure's clock, the others are times of the event.
    let (from, now_at) = match (seen_at, event.not_before) {
        (None, Some(not_before)) => (not_before, now.wall),
        (seen_at, _) => (seen_at.unwrap_or(tracked.first_seen_at), tracked.time(now)),
    };
    // An event that was cancelled before that time explains nothing.
    let at = tracked.end.map_or(now_at, |end| end.at.min(now_at));
    let has_begun = from.seconds_from(at) <= DOWN_MARGIN.as_secs_f64();
    let is_recent = now_at.saturating_since(from) < STUCK_AFTER;
    let is_over = tracked
        .end
        .is_some_and(|end| tracked.since(end.at, now) >= DOWN_MARGIN);
    has_begun && is_recent && !is_over
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

/// Whether a move of the VM to another host makes the event unnecessary.
pub(super) fn is_avoidable(event: &Event) -> bool {
    is_service_of_host(&event.event_type, event.source.as_ref()) && !event.is_without_interruption()
}
