//! From the picture to the alerts that are told of it, by the table at the head of `alerts/scheduled-events.rules.yml`.
//!
//! An event is told by the labels `alertname`, `severity`, `event_id`, `event_type` and `event_source`, and by no other:
//! who reports it, how far it is and how much time is left are in the text, since a changed label is a second page.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use crate::{
    event::{EventScope, EventType, Source},
    lifecycle::TrackedEvent,
    snapshot::Snapshot,
    time::Timestamp,
};

/// Without another word for so long, Alertmanager takes an alert for over; as long as the rules remember a dead VM.
pub const LEASE: Duration = Duration::from_mins(15);
/// For so long an end is told again, so that an Alertmanager that was away hears of it.
pub const FAREWELL: Duration = Duration::from_mins(5);
/// What is due within the hour is told as urgent.
const IMMINENT_SECONDS: f64 = 3_600.0;
/// Azure announces days ahead only what it can foresee: hardware that is going to fail.
const FORESEEN_SECONDS: f64 = 86_400.0;
/// A pause of so many seconds or more breaks connections.
const LONG_FREEZE_SECONDS: u64 = 10;

const RUNBOOKS: &str = "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs/runbooks.md";
const DASHBOARD: &str = "/d/azse-fleet";

/// How urgent it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Wake somebody.
    Critical,
    /// Look at it today.
    Warning,
    /// Good to know.
    Info,
}

impl Severity {
    /// The value of the label `severity`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// What makes an alert the alert it is.
pub type Labels = BTreeMap<&'static str, String>;

/// One alert, in the form in which Alertmanager's API v2 takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// Who it is.
    pub labels: Labels,
    /// What people read.
    pub annotations: BTreeMap<&'static str, String>,
    /// When the event was first seen.
    #[serde(serialize_with = "rfc3339")]
    pub starts_at: Timestamp,
    /// In the future while it goes on, in the past when it is over.
    #[serde(serialize_with = "rfc3339")]
    pub ends_at: Timestamp,
    /// Whether it is over.
    #[serde(skip)]
    pub is_over: bool,
}

/// One row of the table of alerts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    name: &'static str,
    severity: Severity,
    summary: &'static str,
}

macro_rules! rows {
    ($($constant:ident = $name:literal $severity:ident $summary:literal;)*) => {
        $(const $constant: Row = Row { name: concat!("AzureScheduledEvent", $name), severity: Severity::$severity, summary: $summary };)*
    };
}

rows! {
    PREEMPT = "Preempt" Critical "Azure is about to evict a Spot virtual machine.";
    TERMINATE = "Terminate" Warning "Azure is about to delete a virtual machine.";
    HARDWARE_FAILURE = "HardwareFailure" Critical "A virtual machine is being restarted without notice.";
    REBOOT = "Reboot" Critical "Azure is about to restart a virtual machine.";
    REBOOT_AHEAD = "Reboot" Warning "Azure will restart a virtual machine.";
    REDEPLOY = "Redeploy" Critical "Azure is about to move a virtual machine to another host.";
    REDEPLOY_AHEAD = "Redeploy" Warning "Azure will move a virtual machine to another host.";
    FREEZE_LONG = "Freeze" Warning "Azure is about to pause a virtual machine for long.";
    FREEZE_SHORT = "Freeze" Info "Azure is about to pause a virtual machine for some seconds.";
    DEGRADED_HARDWARE = "DegradedHardware" Warning "The hardware under a virtual machine is degraded and will be serviced in some days.";
    USER_WAITING = "UserInitiatedWaiting" Warning "A restart or redeploy that somebody ordered waits for an approval.";
    UNKNOWN_TYPE = "UnknownType" Warning "Azure announces an event of an unknown type for a virtual machine.";
}

/// All that is to be told at `now`: what goes on, and for a while what is over.
pub fn alerts(snapshot: &Snapshot, now: Timestamp) -> Vec<Alert> {
    let events = snapshot.events.iter().map(AsRef::as_ref);
    events
        .filter(|tracked| tracked.scope == EventScope::Own)
        .flat_map(|tracked| told(tracked, snapshot, now))
        .collect()
}

fn told(tracked: &TrackedEvent, snapshot: &Snapshot, now: Timestamp) -> Vec<Alert> {
    // An event that is over is told as it was when it ended.
    let at = tracked.end.map_or(now, |end| end.at);
    let is_recent = |over: Timestamp| now.saturating_since(over) < FAREWELL;
    rows(tracked, at)
        .into_iter()
        .filter_map(|row| {
            let waited_until = tracked.started_at.filter(|_| row == USER_WAITING);
            let over = waited_until.or(tracked.end.map(|end| end.at));
            over.is_none_or(is_recent)
                .then(|| alert(row, tracked, snapshot, now, over))
        })
        .collect()
}

/// Which alerts tell of this event, at a time when it goes on.
fn rows(tracked: &TrackedEvent, at: Timestamp) -> Vec<Row> {
    let event = &tracked.event;
    let is_users = event.source == Some(Source::User);
    let is_started = tracked.started_at.is_some();
    let notice = event
        .not_before
        .map(|not_before| not_before.seconds_from(tracked.first_seen_at));
    let remaining = event
        .not_before
        .map(|not_before| not_before.seconds_from(at));
    let is_imminent = is_started
        || notice.is_none_or(|notice| notice < IMMINENT_SECONDS)
        || remaining.is_none_or(|remaining| remaining < IMMINENT_SECONDS);
    let is_foreseen = notice.is_some_and(|notice| notice >= FORESEEN_SECONDS);
    let is_ahead = notice.is_some_and(|notice| notice >= IMMINENT_SECONDS) && !is_foreseen;
    let restart = |near: Row, ahead: Row| {
        let mut rows = Vec::new();
        if is_imminent {
            rows.push(near);
        }
        if is_ahead {
            rows.push(ahead);
        }
        rows
    };
    let mut rows = match &event.event_type {
        EventType::Preempt => vec![PREEMPT],
        EventType::Terminate => vec![TERMINATE],
        EventType::Reboot | EventType::Redeploy if is_users => vec![USER_WAITING],
        // Azure shows a failed host as a Reboot that is Started at first sight. Only who saw the event come can say so.
        EventType::Reboot if is_started && event.not_before.is_none() => {
            if tracked.seen_late {
                Vec::new()
            } else {
                vec![HARDWARE_FAILURE]
            }
        }
        EventType::Reboot => restart(REBOOT, REBOOT_AHEAD),
        EventType::Redeploy => restart(REDEPLOY, REDEPLOY_AHEAD),
        EventType::Freeze if !is_imminent && is_foreseen => Vec::new(),
        EventType::Freeze
            if event
                .duration_seconds
                .is_some_and(|seconds| seconds < LONG_FREEZE_SECONDS) =>
        {
            vec![FREEZE_SHORT]
        }
        EventType::Freeze => vec![FREEZE_LONG],
        EventType::Other(_) => vec![UNKNOWN_TYPE],
    };
    let is_serviceable = matches!(
        event.event_type,
        EventType::Freeze | EventType::Reboot | EventType::Redeploy
    );
    if is_foreseen && is_serviceable && !is_users {
        rows.push(DEGRADED_HARDWARE);
    }
    rows
}

fn alert(
    row: Row,
    tracked: &TrackedEvent,
    snapshot: &Snapshot,
    now: Timestamp,
    over: Option<Timestamp>,
) -> Alert {
    let event = &tracked.event;
    let mut labels = Labels::from([
        ("alertname", row.name.to_owned()),
        ("severity", row.severity.as_str().to_owned()),
        ("event_id", event.id.as_str().to_owned()),
        ("event_type", event.event_type.as_str().to_owned()),
    ]);
    if let Some(source) = event
        .source
        .as_ref()
        .map(Source::as_str)
        .filter(|source| !source.is_empty())
    {
        labels.insert("event_source", source.to_owned());
    }
    let annotations = BTreeMap::from([
        ("summary", row.summary.to_owned()),
        ("description", description(tracked, snapshot, now)),
        (
            "runbook_url",
            format!("{RUNBOOKS}#{}", row.name.to_ascii_lowercase()),
        ),
        ("dashboard_url", DASHBOARD.to_owned()),
    ]);
    let ends_at = over.unwrap_or_else(|| now.after(LEASE));
    Alert {
        labels,
        annotations,
        // A clock that was set back must not make an end before a beginning, which Alertmanager refuses.
        starts_at: tracked.first_seen_at.min(ends_at),
        ends_at,
        is_over: over.is_some(),
    }
}

/// The text of the rules, line by line.
fn description(tracked: &TrackedEvent, snapshot: &Snapshot, now: Timestamp) -> String {
    let event = &tracked.event;
    let vm = snapshot.vm_name.as_deref().unwrap_or("not known");
    let named = event.resources.as_ref().map_or_else(String::new, |names| {
        format!(" (the event names {})", names.len())
    });
    let remaining = event
        .not_before
        .map(|not_before| not_before.seconds_from(now));
    let when = match remaining {
        _ if tracked.started_at.is_some() => "it has started".to_owned(),
        Some(seconds) if seconds >= 0.0 => {
            format!(
                "in {}",
                words(
                    Duration::try_from_secs_f64(seconds)
                        .unwrap_or_default()
                        .as_secs()
                )
            )
        }
        Some(_) => "due now".to_owned(),
        None => "no time was given".to_owned(),
    };
    let utc = event.not_before.map_or_else(String::new, |not_before| {
        let written = not_before
            .rfc3339()
            .replace('T', " ")
            .replace('Z', " +0000 UTC");
        format!(", not before {written}")
    });
    let duration = match event.duration_seconds {
        Some(0) => "0s (no interruption)".to_owned(),
        Some(seconds) => words(seconds),
        None => "unknown".to_owned(),
    };
    let source = event
        .source
        .as_ref()
        .map(Source::as_str)
        .filter(|source| !source.is_empty());
    let said = event.description.as_deref().filter(|text| !text.is_empty());
    format!(
        "VM: {vm}{named}\nWhat: {}, {}\nWhen: {when}{utc}\nDuration announced: {duration}\nSource: {}. Azure says: {}\nEvent: {}",
        event.event_type,
        event.event_type.effect().summary,
        source.unwrap_or("not given"),
        said.unwrap_or("nothing"),
        event.id,
    )
}

/// As `humanizeDuration` of Prometheus' templates writes it: `1d 2h 3m 4s`, `15m 0s`, `30s`.
fn words(total: u64) -> String {
    let (days, hours, minutes, seconds) = (
        total / 86_400,
        total / 3_600 % 24,
        total / 60 % 60,
        total % 60,
    );
    if days > 0 {
        format!("{days}d {hours}h {minutes}m {seconds}s")
    } else if hours > 0 {
        format!("{hours}h {minutes}m {seconds}s")
    } else if minutes > 0 {
        format!("{minutes}m {seconds}s")
    } else {
        format!("{seconds}s")
    }
}

fn rfc3339<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.rfc3339_millis())
}

#[cfg(test)]
mod rules;
#[cfg(test)]
mod tests;
