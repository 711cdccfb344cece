//! Which alerts an event has, by the table at the head of `alerts/scheduled-events.rules.yml`.

use crate::{
    event::{Event, EventType, Source},
    lifecycle::{IMMINENT_SECONDS, PollGap, TrackedEvent},
    time::Timestamp,
};

/// Azure announces only predicted hardware failures more than a day ahead.
const PREDICTED_SECONDS: f64 = 86_400.0;
/// A pause of this length or more breaks connections.
pub(super) const LONG_FREEZE_SECONDS: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AlertRule {
    pub(super) name: &'static str,
    pub(super) severity: &'static str,
}

impl AlertRule {
    /// The type in the labels. A critical alert of a restart keeps it, so that the same danger does not page twice.
    pub(super) fn event_type(self, tracked: &TrackedEvent) -> &EventType {
        if [HARDWARE_FAILURE, REBOOT, REDEPLOY].contains(&self) {
            &tracked.urgent_type
        } else {
            &tracked.event.event_type
        }
    }
}

const fn critical(name: &'static str) -> AlertRule {
    let severity = "critical";
    AlertRule { name, severity }
}

const fn warning(name: &'static str) -> AlertRule {
    let severity = "warning";
    AlertRule { name, severity }
}

const fn info(name: &'static str) -> AlertRule {
    let severity = "info";
    AlertRule { name, severity }
}

const PREEMPT: AlertRule = critical("AzureScheduledEventPreempt");
const TERMINATE: AlertRule = warning("AzureScheduledEventTerminate");
pub(super) const HARDWARE_FAILURE: AlertRule = critical("AzureScheduledEventHardwareFailure");
const REBOOT: AlertRule = critical("AzureScheduledEventReboot");
const REBOOT_AHEAD: AlertRule = warning("AzureScheduledEventReboot");
const REDEPLOY: AlertRule = critical("AzureScheduledEventRedeploy");
const REDEPLOY_AHEAD: AlertRule = warning("AzureScheduledEventRedeploy");
const FREEZE_LONG: AlertRule = warning("AzureScheduledEventFreeze");
const FREEZE_SHORT: AlertRule = info("AzureScheduledEventFreeze");
pub(super) const DEGRADED_HARDWARE: AlertRule = warning("AzureScheduledEventDegradedHardware");
pub(super) const USER_WAITING: AlertRule = warning("AzureScheduledEventUserInitiatedWaiting");
const ADVISORY: AlertRule = info("AzureScheduledEventAdvisory");
const UNKNOWN_TYPE: AlertRule = warning("AzureScheduledEventUnknownType");
/// In place of a rule, for an event without an alert.
pub(super) const NO_ALERT: AlertRule = info("");

/// The rules that match a pending event at a point in time.
pub(super) fn matching(tracked: &TrackedEvent, at: Timestamp) -> Vec<AlertRule> {
    let event = &tracked.event;
    if event.is_advisory() {
        return vec![ADVISORY];
    }
    let is_user_initiated = event.source == Some(Source::User);
    let is_first_seen_started = tracked.started_at == Some(tracked.first_seen_at);
    let is_imminent = tracked.has_been_imminent(at);
    let notice = notice_seconds(tracked);
    let is_predicted = notice.is_some_and(|notice| notice >= PREDICTED_SECONDS);
    let is_ahead = notice.is_some_and(|notice| notice >= IMMINENT_SECONDS) && !is_predicted;
    let restart = |ahead: AlertRule| {
        let imminent = match tracked.urgent_type {
            EventType::Redeploy => REDEPLOY,
            _ => REBOOT,
        };
        let imminent = is_imminent.then_some(imminent);
        let ahead = is_ahead.then_some(ahead);
        imminent.into_iter().chain(ahead).collect()
    };
    let is_short = |seconds| seconds < LONG_FREEZE_SECONDS;
    let mut rules: Vec<AlertRule> = match &event.event_type {
        EventType::Preempt => vec![PREEMPT],
        EventType::Terminate => vec![TERMINATE],
        EventType::Reboot | EventType::Redeploy if is_user_initiated => {
            // Where Azure approves it automatically, it is first seen Started and never waits.
            let waits = !is_first_seen_started;
            waits.then_some(USER_WAITING).into_iter().collect()
        }
        // Azure reports a failed host as a Reboot or Redeploy that is Started when first seen. After a long gap, it may
        // have been announced.
        EventType::Reboot | EventType::Redeploy
            if is_first_seen_started
                && event.not_before.is_none()
                && tracked.gap != PollGap::Notice =>
        {
            vec![HARDWARE_FAILURE]
        }
        EventType::Reboot => restart(REBOOT_AHEAD),
        EventType::Redeploy => restart(REDEPLOY_AHEAD),
        EventType::Freeze if event.is_without_interruption() => vec![FREEZE_SHORT],
        EventType::Freeze if !is_imminent && is_predicted => Vec::new(),
        EventType::Freeze if event.duration_seconds.is_some_and(is_short) => vec![FREEZE_SHORT],
        EventType::Freeze => vec![FREEZE_LONG],
        EventType::SpotRebalanceRecommendation => vec![ADVISORY],
        EventType::Other(_) => vec![UNKNOWN_TYPE],
    };
    if is_predicted && is_service_of_host(event) {
        rules.push(DEGRADED_HARDWARE);
    }
    rules
}

/// The time from first sight to the first `NotBefore`.
pub(super) fn notice_seconds(tracked: &TrackedEvent) -> Option<f64> {
    let change = tracked.reschedulings.first();
    let first = change.map(|change| change.from.unwrap_or(change.to));
    let not_before = first.or(tracked.event.not_before)?;
    Some(not_before.seconds_from(tracked.first_seen_at))
}

/// Maintenance by Azure that a move of the VM to another host makes unnecessary.
pub(super) fn is_service_of_host(event: &Event) -> bool {
    let is_pause_or_restart =
        event.event_type == EventType::Freeze || event.event_type.restarts_vm();
    is_pause_or_restart && event.source != Some(Source::User) && !event.is_without_interruption()
}
