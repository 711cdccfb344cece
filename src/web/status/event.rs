//! One event on the page: large for this VM, a line for the others.

use std::time::Duration;

use maud::{Markup, html};

use super::{MOST_LISTED, MOST_OPEN, at, counted, fact, past, plain, unix_millis, words};
use crate::{
    event::{Event, Scope, resource_name},
    lifecycle::{Life, Phase},
    time::{Moment, Timestamp, in_words},
    view::Approval,
};

/// Names of VMs that are listed; the rest is in the JSON.
const MOST_NAMES: usize = 100;
/// Names in the one line of an event; more are counted.
const MOST_IN_LINE: usize = 2;

/// `Freeze in 14m 09s`, for the title.
pub(super) fn in_short(life: &Life, now: Moment) -> String {
    let name = life.event.event_type.as_str();
    match (life.phase(), life.event.not_before) {
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
pub(super) fn card(life: &Life, approval: Option<&Approval>, now: Moment) -> Markup {
    let event = &life.event;
    html! {
        article.event.(words::Weight::of(&event.event_type).class())
            data-testid="event" data-event-id=(plain(event.id.as_str())) data-phase=(life.phase().as_str()) {
            header {
                h2 { (plain(event.event_type.as_str())) }
                span.pill data-status { (plain(words::status(life))) }
                @if life.scope == Scope::Unknown {
                    span.pill.maybe { "may concern this VM" }
                }
            }
            p.meaning { (words::meaning(event)) }
            (timer(life, now))
            (facts(life, approval))
            (names(event))
            (history(life))
        }
    }
}

/// A section of events that concern this VM less: a line each, closed where there are many.
pub(super) fn list(title: &str, testid: &str, lives: &[&Life], now: Moment) -> Markup {
    let rows = html! {
        ul.rows {
            @for life in lives.iter().take(MOST_LISTED) {
                li { (row(life, now)) }
            }
        }
        @if lives.len() > MOST_LISTED {
            p.more { (lives.len() - MOST_LISTED) " more are in the " a href="api/v1/events" { "JSON" } "." }
        }
    };
    html! {
        @if !lives.is_empty() {
            section.list aria-label=(title) data-testid=(testid) {
                @if lives.len() <= MOST_OPEN {
                    h2 { (title) }
                    (rows)
                } @else {
                    details {
                        summary { h2 { (title) } " " span.count { (counted(lives.len(), "event")) } }
                        (rows)
                    }
                }
            }
        }
    }
}

/// One line, which opens.
fn row(life: &Life, now: Moment) -> Markup {
    let event = &life.event;
    let weight = words::Weight::of(&event.event_type).class();
    html! {
        details.event.row.(weight)
            data-testid="event" data-event-id=(plain(event.id.as_str())) data-phase=(life.phase().as_str()) {
            summary {
                span.kind { (plain(event.event_type.as_str())) }
                span.what { (summary(life, now)) }
            }
            @if life.is_pending() {
                p.meaning { (words::meaning(event)) }
            }
            (facts(life, None))
            (names(event))
            (history(life))
        }
    }
}

fn summary(life: &Life, now: Moment) -> Markup {
    html! {
        @if let Some(ending) = life.ending {
            (words::outcome(ending.outcome)) ", " (past(ending.at, now)) " ago"
            @if let Some(length) = life.observed_interruption() {
                " · stood still " (in_words(length))
                @if event_says_how_long(&life.event) { ", announced " (words::announced(&life.event)) }
            }
        } @else {
            @match (life.phase(), life.event.not_before) {
                (Phase::Started, _) => { "going on" },
                (_, Some(due)) => { "in " (ticking(due, now)) },
                (_, None) => { (plain(words::status(life))) },
            }
            @if let Some(resources) = &life.event.resources {
                " · " (whom(resources))
            }
            @if event_says_how_long(&life.event) { " · interruption: " (words::announced(&life.event)) }
        }
    }
}

/// The names, where they fit on the line.
fn whom(resources: &[Box<str>]) -> String {
    if resources.len() > MOST_IN_LINE {
        return counted(resources.len(), "VM");
    }
    let names = resources.iter().map(|entry| plain(resource_name(entry)));
    names.collect::<Vec<_>>().join(", ")
}

fn event_says_how_long(event: &Event) -> bool {
    event.duration_seconds.is_some()
}

/// The time that is left, or that has passed.
fn timer(life: &Life, now: Moment) -> Markup {
    html! {
        @match (life.phase(), life.event.not_before) {
            (Phase::Started, _) => {
                div.timer {
                    span.label { "Going on for" }
                    @if let Some(since) = life.started_at {
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
                (progress(life, due, now))
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
fn progress(life: &Life, due: Timestamp, now: Moment) -> Markup {
    let whole = due.saturating_since(life.first_seen_at).as_secs_f64();
    let passed = now.wall.saturating_since(life.first_seen_at).as_secs_f64();
    html! {
        @if whole > 0.0 {
            progress aria-label="Notice that has passed" max="1"
                value=(format!("{:.3}", (passed / whole).min(1.0)))
                data-from=(unix_millis(life.first_seen_at)) data-to=(unix_millis(due)) {}
        }
    }
}

fn facts(life: &Life, approval: Option<&Approval>) -> Markup {
    let event = &life.event;
    let not_before = html! { @if let Some(due) = event.not_before { (at(due)) } };
    let interruption = html! {
        @if let Some(length) = life.observed_interruption() { strong { (in_words(length)) } " measured on this VM" }
    };
    let description = html! { @if let Some(text) = &event.description { (plain(text)) } };
    let source = html! { @if let Some(source) = &event.source { (plain(words::source(source))) } };
    html! {
        dl.facts {
            (fact("Not before", &not_before))
            (fact("Interruption, announced", &html! { (words::announced(event)) }))
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
                (plain(&approval.in_words())) "."
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
                @for entry in resources.iter().take(MOST_NAMES) {
                    li { (plain(resource_name(entry))) }
                }
            }
            @if resources.len() > MOST_NAMES {
                p.more { (resources.len() - MOST_NAMES) " more are in the JSON." }
            }
        }
    }
}

/// What was seen of it, in the order in which it happened.
fn history(life: &Life) -> Markup {
    let mut happened = vec![(life.first_seen_at, html! { "First seen" })];
    for change in &life.reschedulings {
        let to = html! { "Moved to " (change.to.rfc1123().replace("GMT", "UTC")) };
        happened.push((change.at, to));
    }
    happened.extend(
        life.approved_at
            .map(|at| (at, html! { "Approved by this exporter" })),
    );
    happened.extend(life.started_at.map(|at| (at, html! { "Started" })));
    for stop in &life.interruptions {
        happened.push((
            stop.until,
            html! { "This VM went on after standing still for " (in_words(stop.length)) },
        ));
    }
    happened.extend(
        life.ending
            .map(|end| (end.at, html! { (words::outcome(end.outcome)) })),
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
            @for (name, value) in &life.event.unknown_members {
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
