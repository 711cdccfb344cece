//! The countdown of an event, or what it waits for.

use std::time::Duration;

use maud::{Markup, Render, html};

use super::{elapsed, plain, unix_millis};
use crate::{
    base::time::{Moment, Timestamp, split_seconds},
    core::{approval::Approval, assessment::Start, lifecycle::TrackedEvent},
};

pub(super) fn timer(tracked: &TrackedEvent, approval: Option<&Approval>, now: Moment) -> Markup {
    match Start::of(tracked, now.wall) {
        Start::Never => html! {},
        Start::Started(since) => waiting("In progress for", elapsed(since, now)),
        Start::Approved => waiting("Approved: may start", "any moment"),
        Start::MayBeApproved => waiting("Approval sent: may start", "any moment"),
        Start::AboutToBeApproved => {
            approval_timer(tracked, approval, tracked.event.not_before, now)
        }
        Start::NotBefore(due) => countdown_timer("Earliest start in", tracked, due, now),
        Start::NotAnnounced => waiting("No NotBefore: may start", "any moment"),
    }
}

fn waiting(label: &str, value: impl Render) -> Markup {
    html! {
        div.timer {
            span.label { (label) }
            span.big { (value) }
        }
    }
}

/// The timer of an event that is about to be approved. An approval that would come after `due` is not sent.
fn approval_timer(
    tracked: &TrackedEvent,
    approval: Option<&Approval>,
    due: Option<Timestamp>,
    now: Moment,
) -> Markup {
    let (label, at) = match approval {
        Some(Approval::Draining { until, .. }) => ("Approval is sent in", *until),
        Some(Approval::Failed { retry_at, .. }) => ("Approval is retried in", *retry_at),
        Some(Approval::Waiting { leader, .. }) => {
            let label = format!("{} may approve it at", plain(leader));
            return waiting(&label, "any moment");
        }
        _ => return waiting("About to be approved: may start", "soon"),
    };
    match due.filter(|due| *due <= at) {
        Some(due) => countdown_timer("Earliest start in", tracked, due, now),
        None => countdown_timer(label, tracked, at, now),
    }
}

fn countdown_timer(label: &str, tracked: &TrackedEvent, due: Timestamp, now: Moment) -> Markup {
    html! {
        div.timer data-overdue[countdown(due, now).is_none()] {
            span.label { (label) }
            span.label.overdue { "May start" }
            span.big role="timer" { (countdown_element(due, now)) }
        }
        (progress(tracked, due, now))
    }
}

/// A countdown that the script updates.
pub(super) fn countdown_element(due: Timestamp, now: Moment) -> Markup {
    html! {
        span.countdown data-testid="countdown" data-not-before=(unix_millis(due)) {
            (countdown(due, now).unwrap_or_else(|| "any moment".to_owned()))
        }
    }
}

/// The elapsed share of the notice.
fn progress(tracked: &TrackedEvent, due: Timestamp, now: Moment) -> Markup {
    let notice = due.saturating_since(tracked.first_seen_at).as_secs_f64();
    let elapsed = now
        .wall
        .saturating_since(tracked.first_seen_at)
        .as_secs_f64();
    html! {
        @if notice > 0.0 {
            progress aria-label="Elapsed notice" max="1"
                value=(format!("{:.3}", (elapsed / notice).min(1.0)))
                data-from=(unix_millis(tracked.first_seen_at)) data-to=(unix_millis(due)) {}
        }
    }
}

/// The time until `due`, padded so that the text keeps its width; `None` once it has passed.
pub(super) fn countdown(due: Timestamp, now: Moment) -> Option<String> {
    let left = Duration::try_from_secs_f64(due.seconds_from(now.wall)).ok()?;
    match split_seconds(left.as_secs()) {
        [0, 0, 0, 0] => None,
        [0, 0, 0, seconds] => Some(format!("{seconds}s")),
        [0, 0, minutes, seconds] => Some(format!("{minutes}m {seconds:02}s")),
        [0, hours, minutes, seconds] => Some(format!("{hours}h {minutes:02}m {seconds:02}s")),
        [days, hours, minutes, _] => Some(format!("{days}d {hours:02}h {minutes:02}m")),
    }
}
