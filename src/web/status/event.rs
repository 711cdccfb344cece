//! One event on the page: large for this VM, a line for the others.

use std::time::Duration;

use maud::{Markup, html};

use super::{MAX_LISTED, MAX_OPEN, at, counted, fact, labels, past, plain, unix_millis};
use crate::{
    event::{Event, EventScope, resource_name},
    lifecycle::{Phase, TrackedEvent},
    snapshot::Approval,
    time::{Moment, Timestamp, in_words},
};

/// Names of VMs that are listed; the rest is in the JSON.
const MAX_NAMES: usize = 100;
/// Names in the one line of an event; more are counted.
const MAX_IN_LINE: usize = 2;

/// `Freeze in 14m 09s`, for the title.
pub(super) fn in_short(tracked: &TrackedEvent, now: Moment) -> String {
    let name = tracked.event.event_type.as_str();
    match (tracked.phase(), tracked.event.not_before) {
        (Phase::Ended, _) => format!("{name} ended"),
        (Phase::Started, _) => format!("{name} is going on"),
        (Phase::Scheduled, None) => format!("{name} scheduled"),
        (Phase::Scheduled, Some(due)) => {
            let left = countdown(due, now);
            left.map_or_else(
                || format!("{name} is due"),
                |left| format!("{name} in {left}"),
            )
        }
    }
}

/// An event of this VM.
pub(super) fn card(tracked: &TrackedEvent, approval: Option<&Approval>, now: Moment) -> Markup {
    let event = &tracked.event;
    html! {
        article.event.(labels::Weight::of(&event.event_type).class())
            data-testid="event" data-event-id=(plain(event.id.as_str())) data-phase=(tracked.phase().as_str()) {
            header {
                h2 { (plain(event.event_type.as_str())) }
                span.pill data-status { (plain(labels::status(tracked))) }
                @if tracked.scope == EventScope::Unknown {
                    span.pill.maybe { "may concern this VM" }
                }
            }
            p.meaning { (labels::meaning(event)) }
            (timer(tracked, now))
            (facts(tracked, approval))
            (names(event))
            (history(tracked))
        }
    }
}

/// A section of events that concern this VM less: a line each, closed where there are many.
pub(super) fn list(title: &str, testid: &str, events: &[&TrackedEvent], now: Moment) -> Markup {
    let rows = html! {
        ul.rows {
            @for tracked in events.iter().take(MAX_LISTED) {
                li { (row(tracked, now)) }
            }
        }
        @if events.len() > MAX_LISTED {
            p.more { (events.len() - MAX_LISTED) " more are in the " a href="api/v1/events" { "JSON" } "." }
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
                        summary { h2 { (title) } " " span.count { (counted(events.len(), "event")) } }
                        (rows)
                    }
                }
            }
        }
    }
}

/// One line, which opens.
fn row(tracked: &TrackedEvent, now: Moment) -> Markup {
    let event = &tracked.event;
    let weight = labels::Weight::of(&event.event_type).class();
    html! {
        details.event.row.(weight)
            data-testid="event" data-event-id=(plain(event.id.as_str())) data-phase=(tracked.phase().as_str()) {
            summary {
                span.kind { (plain(event.event_type.as_str())) }
                span.what { (summary(tracked, now)) }
            }
            @if tracked.is_pending() {
                p.meaning { (labels::meaning(event)) }
            }
            (facts(tracked, None))
            (names(event))
            (history(tracked))
        }
    }
}

fn summary(tracked: &TrackedEvent, now: Moment) -> Markup {
    html! {
        @if let Some(end) = tracked.end {
            (labels::outcome(end.outcome)) ", " (past(end.at, now)) " ago"
            @if let Some(length) = tracked.observed_interruption() {
                " · stood still " (in_words(length))
                @if event_says_how_long(&tracked.event) { ", announced " (labels::announced(&tracked.event)) }
            }
        } @else {
            @match (tracked.phase(), tracked.event.not_before) {
                (Phase::Started, _) => { "going on" },
                (_, Some(due)) => { "in " (ticking(due, now)) },
                (_, None) => { (plain(labels::status(tracked))) },
            }
            @if let Some(resources) = &tracked.event.resources {
                " · " (whom(resources))
            }
            @if event_says_how_long(&tracked.event) { " · interruption: " (labels::announced(&tracked.event)) }
        }
    }
}

/// The names, where they fit on the line.
fn whom(resources: &[Box<str>]) -> String {
    if resources.len() > MAX_IN_LINE {
        return counted(resources.len(), "VM");
    }
    let names = resources.iter().map(|entry| plain(resource_name(entry)));
    names.collect::<Vec<_>>().join(", ")
}

fn event_says_how_long(event: &Event) -> bool {
    event.duration_seconds.is_some()
}

/// The time that is left, or that has passed.
fn timer(tracked: &TrackedEvent, now: Moment) -> Markup {
    html! {
        @match (tracked.phase(), tracked.event.not_before) {
            (Phase::Started, _) => {
                div.timer {
                    span.label { "Going on for" }
                    @if let Some(since) = tracked.started_at {
                        span.big { (past(since, now)) }
                    }
                }
            },
            (_, Some(due)) => {
                div.timer data-overdue[countdown(due, now).is_none()] {
                    span.label { "Starts in, at the earliest" }
                    span.label.overdue { "Due, it may start" }
                    span.big role="timer" { (ticking(due, now)) }
                }
                (progress(tracked, due, now))
            },
            (_, None) => {
                div.timer { span.label { "Azure has not said when it will start" } }
            },
        }
    }
}

/// A countdown that the script lets run.
fn ticking(due: Timestamp, now: Moment) -> Markup {
    html! {
        span.countdown data-testid="countdown" data-not-before=(unix_millis(due)) {
            (countdown(due, now).unwrap_or_else(|| "any moment".to_owned()))
        }
    }
}

/// How much of the notice has passed.
fn progress(tracked: &TrackedEvent, due: Timestamp, now: Moment) -> Markup {
    let whole = due.saturating_since(tracked.first_seen_at).as_secs_f64();
    let passed = now
        .wall
        .saturating_since(tracked.first_seen_at)
        .as_secs_f64();
    html! {
        @if whole > 0.0 {
            progress aria-label="Notice that has passed" max="1"
                value=(format!("{:.3}", (passed / whole).min(1.0)))
                data-from=(unix_millis(tracked.first_seen_at)) data-to=(unix_millis(due)) {}
        }
    }
}

fn facts(tracked: &TrackedEvent, approval: Option<&Approval>) -> Markup {
    let event = &tracked.event;
    let not_before = html! { @if let Some(due) = event.not_before { (at(due)) } };
    let interruption = html! {
        @if let Some(length) = tracked.observed_interruption() { strong { (in_words(length)) } " measured on this VM" }
    };
    let description = html! { @if let Some(text) = &event.description { (plain(text)) } };
    let source = html! { @if let Some(source) = &event.source { (plain(labels::source(source))) } };
    html! {
        dl.facts {
            (fact("Not before", &not_before))
            (fact("Interruption, announced", &html! { (labels::announced(event)) }))
            (fact("Interruption, observed", &interruption))
            (fact("Approval", &approval_of(approval)))
            (fact("Description", &description))
            (fact("Source", &source))
            (fact("Event id", &html! { code.id { (plain(event.id.as_str())) } }))
        }
    }
}

/// What is done about its approval: when and by whom, or why not.
fn approval_of(approval: Option<&Approval>) -> Markup {
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
        return html! { p.more { "The event does not say which VMs it concerns." } };
    };
    html! {
        details.names {
            summary { "Names " (counted(resources.len(), "VM")) }
            ul {
                @for entry in resources.iter().take(MAX_NAMES) {
                    li { (plain(resource_name(entry))) }
                }
            }
            @if resources.len() > MAX_NAMES {
                p.more { (resources.len() - MAX_NAMES) " more are in the JSON." }
            }
        }
    }
}

/// What was seen of it, in the order in which it happened.
fn history(tracked: &TrackedEvent) -> Markup {
    let mut happened = vec![(tracked.first_seen_at, html! { "First seen" })];
    for change in &tracked.reschedulings {
        let to = html! { "Moved to " (change.to.rfc1123().replace("GMT", "UTC")) };
        happened.push((change.at, to));
    }
    happened.extend(
        tracked
            .approved_at
            .map(|at| (at, html! { "Approved by this exporter" })),
    );
    happened.extend(tracked.started_at.map(|at| (at, html! { "Started" })));
    for stop in &tracked.interruptions {
        happened.push((
            stop.until,
            html! { "This VM went on after standing still for " (in_words(stop.length)) },
        ));
    }
    happened.extend(
        tracked
            .end
            .map(|end| (end.at, html! { (labels::outcome(end.outcome)) })),
    );
    happened.sort_by_key(|(at, _)| *at);
    html! {
        details.history {
            summary { "What was seen of it" }
            ol {
                @for (when, what) in &happened {
                    li { (at(*when)) ": " (what) }
                }
            }
            @for (name, value) in &tracked.event.unknown_members {
                p.more { code { (plain(name)) ": " (plain(value)) } }
            }
        }
    }
}

/// What is left until `due`, in a form that does not jump about as it runs; `None` once nothing is.
fn countdown(due: Timestamp, now: Moment) -> Option<String> {
    let left = Duration::try_from_secs_f64(due.seconds_from(now.wall)).ok()?;
    let left = left.as_secs();
    let (days, hours, minutes, seconds) =
        (left / 86_400, left / 3_600 % 24, left / 60 % 60, left % 60);
    match (days, hours, minutes, seconds) {
        (0, 0, 0, 0) => None,
        (0, 0, 0, _) => Some(format!("{seconds}s")),
        (0, 0, _, _) => Some(format!("{minutes}m {seconds:02}s")),
        (0, _, _, _) => Some(format!("{hours}h {minutes:02}m {seconds:02}s")),
        _ => Some(format!("{days}d {hours:02}h {minutes:02}m")),
    }
}
