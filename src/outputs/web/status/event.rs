//! One event on the page: a card for this VM, one line for the others.

use std::{collections::BTreeMap, time::Duration};

use maud::{Markup, Render, html};

use super::{MAX_LISTED, MAX_OPEN, at, elapsed, fact, plain, pluralize, unix_millis};
use crate::{
    azure::event::{Event, EventId, EventScope, Impact, Source, resource_name},
    base::time::{Moment, Timestamp, in_words, split_seconds},
    core::{
        approval::{ApprovalDecision, ApprovalStep},
        assessment::Start,
        lifecycle::{End, Outcome, Phase, TrackedEvent},
    },
};

/// VM names in one list; the JSON has all of them.
const MAX_NAMES: usize = 100;
/// VM names on one line; more are only counted.
const MAX_NAMES_ON_LINE: usize = 2;

/// For example `Freeze in 14m 09s`.
pub(super) fn title(tracked: &TrackedEvent, now: Moment) -> String {
    let name = tracked.shown.event_type.as_str();
    let start = Start::of(tracked, now.wall);
    let left = match start {
        Start::NotBefore(due) => countdown(due, now).map(|left| format!("in {left}")),
        _ => None,
    };
    format!("{name} {}", left.as_deref().unwrap_or(start_text(start)))
}

/// What is known about the start without a time.
fn start_text(start: Start) -> &'static str {
    match start {
        Start::Never => "advisory, no maintenance is scheduled",
        Start::Started(_) => "in progress",
        Start::AboutToBeApproved => "may start soon",
        Start::Approved | Start::MayBeApproved | Start::NotAnnounced | Start::NotBefore(_) => {
            "may start now"
        }
    }
}

pub(super) fn card(
    tracked: &TrackedEvent,
    approval: Option<&ApprovalDecision>,
    now: Moment,
) -> Markup {
    let event = &tracked.shown;
    html! {
        article.event.(class(event))
            data-testid="event" data-event-id=(plain(event.id.as_str())) data-phase=(tracked.phase().as_str()) {
            header {
                h2 { (plain(event.event_type.as_str())) }
                span.pill data-status { (plain(status_text(tracked))) }
                @if tracked.scope == EventScope::Unknown {
                    span.pill.maybe { "may affect this VM" }
                }
            }
            p.meaning { (meaning(event)) }
            (timer(tracked, approval, now))
            (details(tracked, approval))
        }
    }
}

/// A section with one line for each event, collapsed if there are many.
pub(super) fn list(
    title: &str,
    testid: &str,
    events: &[&TrackedEvent],
    approvals: &BTreeMap<EventId, ApprovalDecision>,
    now: Moment,
) -> Markup {
    let rows = html! {
        ul.rows {
            @for tracked in events.iter().take(MAX_LISTED) {
                li { (row(tracked, approvals.get(&tracked.shown.id), now)) }
            }
        }
        @if events.len() > MAX_LISTED {
            p.more { (events.len() - MAX_LISTED) " more in the " a href="api/v1/events" { "JSON" } "." }
        }
    };
    html! {
        @if !events.is_empty() {
            section.list aria-label=(title) data-testid=(testid) {
                @if events.len() <= MAX_OPEN {
                    h2 { (title) }
                    (rows)
                } @else {
                    details {
                        summary { h2 { (title) } " " span.count { (pluralize(events.len(), "event")) } }
                        (rows)
                    }
                }
            }
        }
    }
}

fn row(tracked: &TrackedEvent, approval: Option<&ApprovalDecision>, now: Moment) -> Markup {
    let event = &tracked.shown;
    let severity = class(event);
    html! {
        details.event.row.(severity)
            data-testid="event" data-event-id=(plain(event.id.as_str())) data-phase=(tracked.phase().as_str()) {
            summary {
                span.kind { (plain(event.event_type.as_str())) }
                span.what { (summary(tracked, now)) }
            }
            @if tracked.is_pending() {
                p.meaning { (meaning(event)) }
            }
            (details(tracked, approval))
        }
    }
}

fn summary(tracked: &TrackedEvent, now: Moment) -> Markup {
    html! {
        @if let Some(end) = tracked.end {
            (end_text(tracked, end)) ", " (elapsed(end.at, now)) " ago"
            @if let Some(length) = tracked.longest_interruption {
                " · interruption: " (in_words(length))
                @if tracked.shown.duration_seconds.is_some() { ", announced: " (announced_duration(&tracked.shown)) }
            }
        } @else {
            @match Start::of(tracked, now.wall) {
                Start::NotBefore(due) => { "earliest start: " (countdown_element(due, now)) },
                start => { (start_text(start)) },
            }
            @if let Some(resources) = &tracked.shown.resources {
                " · " (short_names(resources))
            }
            @if tracked.shown.duration_seconds.is_some() { " · interruption: " (announced_duration(&tracked.shown)) }
        }
    }
}

fn short_names(resources: &[Box<str>]) -> String {
    if resources.len() > MAX_NAMES_ON_LINE {
        return pluralize(resources.len(), "VM");
    }
    let names = resources.iter().map(|entry| plain(resource_name(entry)));
    names.collect::<Vec<_>>().join(", ")
}

fn details(tracked: &TrackedEvent, approval: Option<&ApprovalDecision>) -> Markup {
    let event = &tracked.shown;
    let not_before = html! { @if let Some(due) = event.not_before {
        (at(due))
        @if event.is_advisory() { " (no deadline)" }
    } };
    let interruption = html! {
        @if let Some(length) = tracked.longest_interruption { strong { (in_words(length)) } }
    };
    let description = html! { @if let Some(text) = event.description_text() { (plain(text)) } };
    html! {
        dl.facts {
            (fact("Not before", &not_before))
            (fact("Announced interruption", &html! { (announced_duration(event)) }))
            (fact("Measured interruption", &interruption))
            (fact("Approval", &approval_decision(approval)))
            (fact("Description", &description))
            (fact("Source", &html! { (plain(source_text(event.source.as_ref()))) }))
            (fact("Event ID", &html! { code.id { (plain(event.id.as_str())) } }))
        }
        (names(event))
        (history(tracked))
    }
}

fn approval_decision(approval: Option<&ApprovalDecision>) -> Markup {
    html! {
        @if let Some(approval) = approval {
            span data-testid="approval" data-decision=(approval.decision()) {
                (plain(&approval.message())) "."
            }
            @if let Some(when) = approval.at() { " " (at(when)) }
        }
    }
}

fn names(event: &Event) -> Markup {
    let Some(resources) = &event.resources else {
        return html! { p.more { "The event names no VMs." } };
    };
    html! {
        details.names {
            summary { "Affects " (pluralize(resources.len(), "VM")) }
            ul {
                @for entry in resources.iter().take(MAX_NAMES) {
                    li { (plain(resource_name(entry))) }
                }
            }
            @if resources.len() > MAX_NAMES {
                p.more { (resources.len() - MAX_NAMES) " more in the JSON." }
            }
        }
    }
}

/// The observed changes, in the order of their times.
fn history(tracked: &TrackedEvent) -> Markup {
    let mut changes = vec![(tracked.first_seen_at, html! { "First seen" })];
    changes.extend(tracked.reschedulings.iter().map(|change| {
        let to = change.to.rfc1123().replace("GMT", "UTC");
        (change.at, html! { "Rescheduled to " (to) })
    }));
    changes.extend(tracked.approval.shown().filter_map(|(step, at)| {
        let what = match step {
            ApprovalStep::Intended => "Approval decided",
            ApprovalStep::Withdrawn => "Decision to approve withdrawn",
            ApprovalStep::Sent => "Approval sent",
            ApprovalStep::Accepted => "Approved by this exporter",
            ApprovalStep::Elsewhere => "Approved, not by this exporter",
            _ => return None,
        };
        Some((at, html! { (what) }))
    }));
    changes.extend(tracked.started_at.map(|at| (at, html! { "Started" })));
    changes.extend(tracked.interruptions.iter().map(|interruption| {
        let length = in_words(interruption.length);
        (
            interruption.until,
            html! { "End of an interruption of " (length) },
        )
    }));
    changes.extend(
        tracked
            .end
            .map(|end| (end.at, html! { (end_text(tracked, end)) })),
    );
    changes.sort_by_key(|(at, _)| *at);
    html! {
        details.history {
            summary { "History" }
            ol {
                @for (when, what) in &changes {
                    li { (at(*when)) ": " (what) }
                }
            }
            @for (name, value) in &tracked.shown.unknown_members {
                p.more { code { (plain(name)) ": " (plain(value)) } }
            }
        }
    }
}

fn timer(tracked: &TrackedEvent, approval: Option<&ApprovalDecision>, now: Moment) -> Markup {
    match Start::of(tracked, now.wall) {
        Start::Never => html! {},
        Start::Started(since) => waiting("In progress for", elapsed(since, now)),
        Start::Approved => waiting("Approved: may start", "any moment"),
        Start::MayBeApproved => waiting("Approval sent: may start", "any moment"),
        Start::AboutToBeApproved => {
            approval_timer(tracked, approval, tracked.shown.not_before, now)
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
    approval: Option<&ApprovalDecision>,
    due: Option<Timestamp>,
    now: Moment,
) -> Markup {
    let (label, at) = match approval {
        Some(ApprovalDecision::Draining { until, .. }) => ("Approval is sent in", *until),
        Some(ApprovalDecision::Failed { retry_at, .. }) => ("Approval is retried in", *retry_at),
        Some(ApprovalDecision::Waiting { leader, .. }) => {
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
fn countdown_element(due: Timestamp, now: Moment) -> Markup {
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
fn countdown(due: Timestamp, now: Moment) -> Option<String> {
    let left = Duration::try_from_secs_f64(due.seconds_from(now.wall)).ok()?;
    match split_seconds(left.as_secs()) {
        [0, 0, 0, 0] => None,
        [0, 0, 0, seconds] => Some(format!("{seconds}s")),
        [0, 0, minutes, seconds] => Some(format!("{minutes}m {seconds:02}s")),
        [0, hours, minutes, seconds] => Some(format!("{hours}h {minutes:02}m {seconds:02}s")),
        [days, hours, minutes, _] => Some(format!("{days}d {hours:02}h {minutes:02}m")),
    }
}

/// The CSS class of an event.
fn class(event: &Event) -> &'static str {
    match event.impact() {
        Impact::None => "advice",
        Impact::Pause => "pause",
        Impact::Restart => "restart",
        Impact::Removal => "gone",
        Impact::Unknown => "unknown",
    }
}

/// What the event does to the VM.
fn meaning(event: &Event) -> String {
    let mut chars = event.meaning().chars();
    let first = chars.next().map(|first| first.to_ascii_uppercase());
    let sentence: String = first.into_iter().chain(chars).collect();
    match event.impact() {
        Impact::Unknown => sentence + ". Be prepared for an interruption.",
        Impact::None | Impact::Pause | Impact::Restart | Impact::Removal => sentence + ".",
    }
}

fn announced_duration(event: &Event) -> String {
    match event.duration_seconds {
        None => "unknown".to_owned(),
        Some(_) if event.is_without_interruption() => "none expected".to_owned(),
        Some(seconds) => in_words(Duration::from_secs(seconds)),
    }
}

fn source_text(source: Option<&Source>) -> &str {
    match source {
        None => Source::NOT_GIVEN,
        Some(Source::Platform) => "Azure (Platform)",
        Some(Source::User) => "a user or tool with access to the VM (User)",
        Some(Source::Other(source)) => source,
    }
}

/// Azure's text for a status that this version does not know.
fn status_text(tracked: &TrackedEvent) -> &str {
    match tracked.phase() {
        Phase::Ended => "Ended",
        Phase::Started => "Started",
        Phase::Advisory | Phase::Scheduled => tracked.shown.status.as_str(),
    }
}

fn end_text(tracked: &TrackedEvent, end: End) -> &'static str {
    match end.outcome {
        _ if tracked.shown.is_advisory() => "Advisory no longer listed",
        Outcome::Completed => "Completed",
        Outcome::Cancelled => "Cancelled before it started",
        Outcome::Unknown => "Ended, outcome unknown",
    }
}
