//! An alert in the format of Alertmanager's API v2.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    azure::event::EventScope,
    base::time::{Moment, Timestamp},
    core::{assessment::judge, snapshot::Snapshot},
    outputs::due_alerts::{DueAlert, END_TTL, Progress},
};

/// Alertmanager resolves an alert that was not sent again for this long. The rules keep alerts of a dead VM as long.
const ALERT_TTL: Duration = Duration::from_mins(15);
/// The time to live in place of [`ALERT_TTL`] while a Reboot or Redeploy is due or has started: the VM is down, and cannot send the alert again.
const RESTART_TTL: Duration = Duration::from_hours(2);

const RUNBOOKS: &str = "https://github.com/azure-scheduled-events-exporter/azure-scheduled-events-exporter/blob/main/docs/runbooks.md";

/// How far the clocks of an Alertmanager, one for each address, are ahead of that of this VM at most, and behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockDifference {
    pub(super) ahead: Duration,
    pub(super) behind: Duration,
}

/// What is sent at `now`. Its times hold by both clocks.
pub fn json(alert: &DueAlert, snapshot: &Snapshot, clocks: ClockDifference, now: Moment) -> Value {
    let tracked = &alert.tracked;
    let words = judge(tracked, now).words(snapshot);
    let description = match alert.progress {
        Progress::Firing => words.description(),
        _ => words.description_without_advice(),
    };
    let wall = |at| now.wall.before(tracked.since(at, now));
    let ends_at = match alert.progress {
        Progress::Firing => now.wall.after(time_to_live(alert, now.wall) + clocks.ahead),
        Progress::Ending(at) => wall(at).after(END_TTL + clocks.ahead),
        Progress::Ended(at) => wall(at).before(clocks.behind),
    };
    // The clock may have been set back, and Alertmanager rejects an end before the start.
    let starts_at = tracked.first_seen_at.min(ends_at);
    json!({
        "labels": alert.labels,
        "annotations": {
            "summary": words.summary,
            "description": description,
            "runbook_url": format!("{RUNBOOKS}#{}", alert.rule.name.to_ascii_lowercase()),
        },
        "startsAt": starts_at.rfc3339_millis(),
        "endsAt": ends_at.rfc3339_millis(),
    })
}

fn time_to_live(alert: &DueAlert, now: Timestamp) -> Duration {
    let tracked = &alert.tracked;
    let not_before = tracked.shown.not_before;
    let is_due = tracked.running_since().is_some()
        || not_before.is_none_or(|not_before| not_before <= now.after(ALERT_TTL));
    // An alert about an approval ends when the restart begins.
    let is_restart = tracked.shown.event_type.restarts_vm()
        && tracked.scope == EventScope::Own
        && !tracked.shown.is_advisory()
        && !alert.rule.ends_with_start();
    if is_restart && is_due {
        RESTART_TTL
    } else {
        ALERT_TTL
    }
}

#[cfg(test)]
mod tests;
