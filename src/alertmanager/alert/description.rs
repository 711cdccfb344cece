//! The annotation `description`, the same text as that of the rules.

use std::time::Duration;

use super::{IMMINENT_SECONDS, is_service_of_host, notice_seconds};
use crate::{
    event::Source,
    lifecycle::TrackedEvent,
    snapshot::Snapshot,
    text::label_value,
    time::{Timestamp, split_seconds},
};

/// The rules make it of label values.
pub(super) fn description(tracked: &TrackedEvent, snapshot: &Snapshot, now: Timestamp) -> String {
    let event = &tracked.event;
    let vm = snapshot.vm_name.as_deref().map(label_value);
    let resources = event.resources.as_ref().map_or_else(String::new, |names| {
        format!(" (the event names {})", names.len())
    });
    let remaining = event
        .not_before
        .map(|not_before| not_before.seconds_from(now));
    let when = match remaining {
        _ if event.is_advisory() => "no deadline".to_owned(),
        _ if tracked.started_at.is_some() => "it has started".to_owned(),
        Some(seconds) if seconds >= 0.0 => {
            let remaining = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            format!("in {}", humanize_duration(remaining.as_secs()))
        }
        Some(_) => "due now".to_owned(),
        None => "no time was given".to_owned(),
    };
    let utc = event.deadline().map_or_else(String::new, |not_before| {
        let written = not_before
            .rfc3339()
            .replace('T', " ")
            .replace('Z', " +0000 UTC");
        format!(", not before {written}")
    });
    let duration = match event.duration_seconds {
        Some(_) if event.is_without_interruption() => "0s (no interruption)".to_owned(),
        Some(seconds) => humanize_duration(seconds),
        None => "unknown".to_owned(),
    };
    let to_do =
        advice(tracked).map_or_else(String::new, |advice| format!("\nWhat to do: {advice}"));
    let source = event.source_text();
    let azure_text = event.description_text();
    format!(
        "VM: {}{resources}\nWhat: {}, {}\nWhen: {when}{utc}\nDuration announced: {duration}{to_do}\nSource: {}. Azure says: {}\nEvent: {}",
        vm.as_deref().unwrap_or("not known"),
        label_value(event.event_type.as_str()),
        event.effect().summary,
        label_value(source.unwrap_or(Source::NOT_GIVEN)),
        label_value(azure_text.unwrap_or("nothing")),
        label_value(event.id.as_str()),
    )
}

/// Like `humanizeDuration` of Prometheus' templates: `1d 2h 3m 4s`, `15m 0s`, `30s`.
fn humanize_duration(total: u64) -> String {
    let [days, hours, minutes, seconds] = split_seconds(total);
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

/// Absent if there is nothing to do, or too little time.
fn advice(tracked: &TrackedEvent) -> Option<&'static str> {
    let event = &tracked.event;
    if event.is_advisory() {
        return Some("save the state of the VM and move its load to another VM");
    }
    let is_ahead = notice_seconds(tracked).is_some_and(|notice| notice >= IMMINENT_SECONDS);
    (is_ahead && tracked.started_at.is_none() && is_service_of_host(event))
        .then_some("redeploy the VM yourself at a good time, before Azure starts the event")
}
