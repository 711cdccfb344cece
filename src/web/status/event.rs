//! One event on the page: a card for this VM, one line for the others.

use std::time::Duration;

use maud::{Markup, html};

use super::{MAX_LISTED, MAX_OPEN, at, elapsed, fact, labels, plain, pluralize, unix_millis};
use crate::{
    event::{Event, EventScope, resource_name},
    lifecycle::{Phase, TrackedEvent},
    snapshot::Approval,
    time::{Moment, Timestamp, in_words, split_seconds},
};

/// VM names in one list; the JSON has all of them.
const MAX_NAMES: usize = 100;
/// VM names on one line; more are only counted.
const MAX_NAMES_ON_LINE: usize = 2;

/// For example `Freeze in 14m 09s`.
pub(super) fn title(tracked: &TrackedEvent, now: Moment) -> String {
    let name = tracked.event.event_type.as_str();
    match (tracked.phase(), tracked.event.not_before) {
        (Phase::Ended, _) => format!("{name} ended"),
        (Phase::Advisory, _) => format!("{name} (advisory)"),
        (Phase::Started, _) => format!("{name} in progress"),
        (Phase::Scheduled, _) if tracked.may_be_approved() => format!("{name} may start now"),
        (Phase::Scheduled, None) => format!("{name} scheduled"),
        (Phase::Scheduled, Some(due)) => {
            let left = countdown(due, now);
            left.map_or_else(
                || format!("{name} may start now"),
                |left| format!("{name} in {left}"),
            )
        }
    }
}

pub(super) fn card(tracked: &TrackedEvent, approval: Option<&Approval>, now: Moment) -> Markup {
    let event = &tracked.event;
    html! {
        article.event.(labels::class(event))
            data-testid="event" data-event-id=(plain(event.id.as_str())) data-phase=(tracked.phase().as_str()) {
            header {
                h2 { (plain(event.event_type.as_str())) }
                span.pill data-status { (plain(labels::status(tracked))) }
                @if tracked.scope == EventScope::Unknown {
                    span.pill.maybe { "may affect this VM" }
                }
            }
            p.meaning { (labels::meaning(event)) }
            (timer(tracked, approval, now))
            (facts(tracked, approval))
            (names(event))
            (history(tracked))
        }
    }
}

/// A section with one line for each event, collapsed if there are many.
pub(super) fn list(title: &str, testid: &str, events: &[&TrackedEvent], now: Moment) -> Markup {
    let rows = html! {
        ul.rows {
            @for tracked in events.iter().take(MAX_LISTED) {
                li { (row(tracked, now)) }
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

fn row(tracked: &TrackedEvent, now: Moment) -> Markup {
    let event = &tracked.event;
    let severity = labels::class(event);
    html! {
        details.event.row.(severity)
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
            (labels::end(tracked, end)) ", " (elapsed(end.at, now)) " ago"
            @if let Some(length) = tracked.observed_interruption() {
                " · interruption: " (in_words(length))
                @if tracked.event.duration_seconds.is_some() { ", announced: " (labels::announced_duration(&tracked.event)) }
            }
        } @else {
            @match (tracked.phase(), tracked.event.not_before) {
                (Phase::Advisory, _) => { "advisory, no maintenance is scheduled" },
                (Phase::Started, _) => { "in progress" },
                (_, _) if tracked.may_be_approved() => { "may start at any moment" },
                (_, Some(due)) => { "earliest start: " (countdown_element(due, now)) },
                (_, None) => { (plain(labels::status(tracked))) },
            }
            @if let Some(resources) = &tracked.event.resources {
                " · " (short_names(resources))
            }
            @if tracked.event.duration_seconds.is_some() { " · interruption: " (labels::announced_duration(&tracked.event)) }
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

fn timer(tracked: &TrackedEvent, approval: Option<&Approval>, now: Moment) -> Markup {
    html! {
        @match (tracked.phase(), tracked.event.not_before) {
            (Phase::Advisory, _) => {},
            (Phase::Started, _) => {
                div.timer {
                    span.label { "In progress for" }
                    @if let Some(since) = tracked.started_at {
                        span.big { (elapsed(since, now)) }
                    }
                }
            },
            (_, _) if tracked.is_approved() => {
                div.timer {
                    span.label { "Approved: may start" }
                    span.big { "any moment" }
                }
            },
            (_, Some(_)) if tracked.approval_sent_at.is_some() => {
                div.timer {
                    span.label { "Approval sent: may start" }
                    span.big { "any moment" }
                }
            },
            (_, Some(due)) => {
                @let approved_at = drain_end(approval).filter(|end| *end < due);
                @let (label, due) = match approved_at {
                    Some(end) => ("Approval is sent in", end),
                    None => ("Earliest start in", due),
                };
                div.timer data-overdue[countdown(due, now).is_none()] {
                    span.label { (label) }
                    span.label.overdue { "May start" }
                    span.big role="timer" { (countdown_element(due, now)) }
                }
                (progress(tracked, due, now))
            },
            (_, None) => {
                div.timer { span.label { "No start time announced" } }
            },
        }
    }
}

/// When this VM approves the event, while it is drained.
fn drain_end(approval: Option<&Approval>) -> Option<Timestamp> {
    match approval {
        Some(Approval::Draining { until, .. }) => Some(*until),
        _ => None,
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

fn facts(tracked: &TrackedEvent, approval: Option<&Approval>) -> Markup {
    let event = &tracked.event;
    let not_before = html! { @if let Some(due) = event.not_before {
        (at(due))
        @if event.is_advisory() { " (no deadline)" }
    } };
    let interruption = html! {
        @if let Some(length) = tracked.observed_interruption() { strong { (in_words(length)) } }
    };
    let description = html! { @if let Some(text) = event.description_text() { (plain(text)) } };
    html! {
        dl.facts {
            (fact("Not before", &not_before))
            (fact("Announced interruption", &html! { (labels::announced_duration(event)) }))
            (fact("Measured interruption", &interruption))
            (fact("Approval", &approval_decision(approval)))
            (fact("Description", &description))
            (fact("Source", &html! { (plain(labels::source(event.source.as_ref()))) }))
            (fact("Event ID", &html! { code.id { (plain(event.id.as_str())) } }))
        }
    }
}

fn approval_decision(approval: Option<&Approval>) -> Markup {
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
    for change in &tracked.reschedulings {
        let to = html! { "Rescheduled to " (change.to.rfc1123().replace("GMT", "UTC")) };
        changes.push((change.at, to));
    }
    for (when, what) in [
        (tracked.approval_decided_at, "Approval decided"),
        (tracked.approval_sent_at, "Approval sent"),
        (tracked.approved_at, "Approved by this exporter"),
        (
            tracked.approved_elsewhere_at,
            "Approved, not by this exporter",
        ),
    ] {
        changes.extend(when.map(|when| (when, html! { (what) })));
    }
    changes.extend(tracked.started_at.map(|at| (at, html! { "Started" })));
    for interruption in &tracked.interruptions {
        changes.push((
            interruption.until,
            html! { "End of an interruption of " (in_words(interruption.length)) },
        ));
    }
    changes.extend(
        tracked
            .end
            .map(|end| (end.at, html! { (labels::end(tracked, end)) })),
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
            @for (name, value) in &tracked.event.unknown_members {
                p.more { code { (plain(name)) ": " (plain(value)) } }
            }
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
