//! Maps a snapshot to alerts, by the table at the head of `alerts/scheduled-events.rules.yml`. Pure.
//!
//! An alert has the labels `alertname`, `severity`, `event_id`, `event_type` and `event_source` and no others. The
//! reporting VM, the status and the remaining time are in the annotations: a changed label would be a new alert.

mod description;

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use self::description::description;
use crate::{
    event::{Event, EventScope, EventType, Source},
    lifecycle::{PollGap, TrackedEvent},
    snapshot::Snapshot,
    text::label_value,
    time::Timestamp,
};

/// Alertmanager resolves an alert that was not sent again for this long. The rules keep alerts of a dead VM as long.
pub(super) const ALERT_TTL: Duration = Duration::from_mins(15);
/// A resolved alert is sent for this long, for an Alertmanager that was unreachable.
pub(super) const RESOLVED_RETENTION: Duration = Duration::from_mins(5);
/// An event that is due within an hour is urgent.
const IMMINENT_SECONDS: f64 = 3_600.0;
/// Azure announces only predicted hardware failures more than a day ahead.
const PREDICTED_SECONDS: f64 = 86_400.0;
/// A pause of this length or more breaks connections.
const LONG_FREEZE_SECONDS: u64 = 10;

const RUNBOOKS: &str = "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs/runbooks.md";
const DASHBOARD: &str = "/d/azse-fleet";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Critical,
    Warning,
    Info,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// The identity of an alert.
pub(super) type Labels = BTreeMap<&'static str, String>;

/// An alert in the format of Alertmanager's API v2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Alert {
    pub(super) labels: Labels,
    pub(super) annotations: BTreeMap<&'static str, String>,
    /// When the event was first seen.
    #[serde(serialize_with = "rfc3339")]
    pub(super) starts_at: Timestamp,
    /// In the future while the alert fires.
    #[serde(serialize_with = "rfc3339")]
    pub(super) ends_at: Timestamp,
    #[serde(skip)]
    pub(super) is_resolved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AlertRule {
    name: &'static str,
    severity: Severity,
    summary: &'static str,
}

macro_rules! alert_rules {
    ($($constant:ident = $name:literal $severity:ident $summary:literal;)*) => {
        $(const $constant: AlertRule = AlertRule { name: concat!("AzureScheduledEvent", $name), severity: Severity::$severity, summary: $summary };)*
    };
}

alert_rules! {
    PREEMPT = "Preempt" Critical "Azure is about to evict a Spot virtual machine.";
    TERMINATE = "Terminate" Warning "Azure is about to delete a virtual machine.";
    HARDWARE_FAILURE = "HardwareFailure" Critical "A virtual machine is being restarted or moved without notice.";
    REBOOT = "Reboot" Critical "Azure is about to restart a virtual machine.";
    REBOOT_AHEAD = "Reboot" Warning "Azure will restart a virtual machine.";
    REDEPLOY = "Redeploy" Critical "Azure is about to move a virtual machine to another host.";
    REDEPLOY_AHEAD = "Redeploy" Warning "Azure will move a virtual machine to another host.";
    FREEZE_LONG = "Freeze" Warning "Azure is about to pause a virtual machine for long.";
    FREEZE_SHORT = "Freeze" Info "Azure is about to pause a virtual machine for some seconds.";
    FREEZE_NONE = "Freeze" Info "Azure announces maintenance without an interruption for a virtual machine.";
    DEGRADED_HARDWARE = "DegradedHardware" Warning "The hardware under a virtual machine is degraded and will be serviced in some days.";
    USER_WAITING = "UserInitiatedWaiting" Warning "A restart or redeploy that somebody ordered waits for an approval.";
    ADVISORY = "Advisory" Info "Azure sends an advisory for a virtual machine. No maintenance is scheduled.";
    UNKNOWN_TYPE = "UnknownType" Warning "Azure announces an event of an unknown type for a virtual machine.";
}

/// An alert of an event, which is built only if it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    rule: AlertRule,
    pub(super) resolved_at: Option<Timestamp>,
}

impl Match {
    /// For the same event.
    pub(super) fn has_labels_of(self, other: Self) -> bool {
        (self.rule.name, self.rule.severity) == (other.rule.name, other.rule.severity)
    }

    /// The alert of the event that matched.
    pub(super) fn alert(
        self,
        tracked: &TrackedEvent,
        snapshot: &Snapshot,
        now: Timestamp,
    ) -> Alert {
        alert(self.rule, tracked, snapshot, now, self.resolved_at)
    }
}

/// The alerts of an event that fire at `now`, and those that were resolved recently.
pub(super) fn matches(tracked: &TrackedEvent, now: Timestamp) -> impl Iterator<Item = Match> {
    // The rules are those that matched when the event ended.
    let at = tracked.end.map_or(now, |end| end.at);
    let rules = if tracked.scope == EventScope::Own {
        matching_rules(tracked, at)
    } else {
        Vec::new()
    };
    let (started_at, ended_at) = (tracked.started_at, tracked.end.map(|end| end.at));
    rules
        .into_iter()
        .map(move |rule| {
            let waited_until = started_at.filter(|_| rule == USER_WAITING);
            let resolved_at = waited_until.or(ended_at);
            Match { rule, resolved_at }
        })
        .filter(move |matched| {
            let is_recent = |at: Timestamp| now.saturating_since(at) < RESOLVED_RETENTION;
            matched.resolved_at.is_none_or(is_recent)
        })
}

#[cfg(test)]
fn alerts(snapshot: &Snapshot, now: Timestamp) -> Vec<Alert> {
    let events = snapshot.events.iter();
    events
        .flat_map(|tracked| {
            matches(tracked, now).map(|matched| matched.alert(tracked, snapshot, now))
        })
        .collect()
}

/// The rules that match a pending event at a point in time.
fn matching_rules(tracked: &TrackedEvent, at: Timestamp) -> Vec<AlertRule> {
    let event = &tracked.event;
    if event.is_advisory() {
        return vec![ADVISORY];
    }
    let is_user_initiated = event.source == Some(Source::User);
    let is_started = tracked.started_at.is_some();
    let notice = notice_seconds(tracked);
    let remaining = event
        .not_before
        .map(|not_before| not_before.seconds_from(at));
    let is_imminent = is_started
        || notice.is_none_or(|notice| notice < IMMINENT_SECONDS)
        || remaining.is_none_or(|remaining| remaining < IMMINENT_SECONDS);
    let is_predicted = notice.is_some_and(|notice| notice >= PREDICTED_SECONDS);
    let is_ahead = notice.is_some_and(|notice| notice >= IMMINENT_SECONDS) && !is_predicted;
    let restart = |imminent: AlertRule, ahead: AlertRule| {
        let imminent = is_imminent.then_some(imminent);
        let ahead = is_ahead.then_some(ahead);
        imminent.into_iter().chain(ahead).collect()
    };
    let mut rules: Vec<AlertRule> = match &event.event_type {
        EventType::Preempt => vec![PREEMPT],
        EventType::Terminate => vec![TERMINATE],
        EventType::Reboot | EventType::Redeploy if is_user_initiated => {
            // Where Azure approves it automatically, it is first seen Started and never waits.
            if tracked.started_at == Some(tracked.first_seen_at) {
                Vec::new()
            } else {
                vec![USER_WAITING]
            }
        }
        // Azure reports a failed host as a Reboot or Redeploy that is Started when first seen. After a long gap, it may
        // have been announced.
        EventType::Reboot | EventType::Redeploy
            if is_started && event.not_before.is_none() && tracked.gap != PollGap::Notice =>
        {
            vec![HARDWARE_FAILURE]
        }
        EventType::Reboot => restart(REBOOT, REBOOT_AHEAD),
        EventType::Redeploy => restart(REDEPLOY, REDEPLOY_AHEAD),
        EventType::Freeze if event.is_without_interruption() => vec![FREEZE_NONE],
        EventType::Freeze if !is_imminent && is_predicted => Vec::new(),
        EventType::Freeze
            if event
                .duration_seconds
                .is_some_and(|seconds| seconds < LONG_FREEZE_SECONDS) =>
        {
            vec![FREEZE_SHORT]
        }
        EventType::Freeze => vec![FREEZE_LONG],
        EventType::SpotRebalanceRecommendation => vec![ADVISORY],
        EventType::Other(_) => vec![UNKNOWN_TYPE],
    };
    if is_predicted && is_service_of_host(event) {
        rules.push(DEGRADED_HARDWARE);
    }
    rules
}

/// The time from first sight to `NotBefore`.
fn notice_seconds(tracked: &TrackedEvent) -> Option<f64> {
    let not_before = tracked.event.not_before?;
    Some(not_before.seconds_from(tracked.first_seen_at))
}

/// Maintenance by Azure that a move of the VM to another host makes unnecessary.
fn is_service_of_host(event: &Event) -> bool {
    let is_pause_or_restart = matches!(
        event.event_type,
        EventType::Freeze | EventType::Reboot | EventType::Redeploy
    );
    is_pause_or_restart && event.source != Some(Source::User) && !event.is_without_interruption()
}

fn labels(rule: AlertRule, tracked: &TrackedEvent) -> Labels {
    let event = &tracked.event;
    let mut labels = Labels::from([
        ("alertname", rule.name.to_owned()),
        ("severity", rule.severity.as_str().to_owned()),
        ("event_id", label_value(event.id.as_str()).into_owned()),
        (
            "event_type",
            label_value(event.event_type.as_str()).into_owned(),
        ),
    ]);
    if let Some(source) = event.source_text() {
        labels.insert("event_source", label_value(source).into_owned());
    }
    labels
}

fn alert(
    rule: AlertRule,
    tracked: &TrackedEvent,
    snapshot: &Snapshot,
    now: Timestamp,
    resolved_at: Option<Timestamp>,
) -> Alert {
    let annotations = BTreeMap::from([
        ("summary", rule.summary.to_owned()),
        ("description", description(tracked, snapshot, now)),
        (
            "runbook_url",
            format!("{RUNBOOKS}#{}", rule.name.to_ascii_lowercase()),
        ),
        ("dashboard_url", DASHBOARD.to_owned()),
    ]);
    let ends_at = resolved_at.unwrap_or_else(|| now.after(ALERT_TTL));
    Alert {
        labels: labels(rule, tracked),
        annotations,
        // The clock may have been set back, and Alertmanager rejects an end before the start.
        starts_at: tracked.first_seen_at.min(ends_at),
        ends_at,
        is_resolved: resolved_at.is_some(),
    }
}

fn rfc3339<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.rfc3339_millis())
}

#[cfg(test)]
mod rule_parity_tests;
#[cfg(test)]
mod tests;
