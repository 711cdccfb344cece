//! One event on the page: a card for this VM, one line for the others.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{
    MAX_LISTED, MAX_OPEN, at, elapsed, fact, labels, plain, pluralize,
    timer::{countdown, countdown_element, timer},
};
use crate::{
    azure::event::{Event, EventId, EventScope, resource_name},
    base::time::{Moment, in_words},
    core::{approval::Approval, assessment::Start, lifecycle::TrackedEvent},
};

/// VM names in one list; the JSON has all of them.
const MAX_NAMES: usize = 100;
/// VM names on one line; more are only counted.
const MAX_NAMES_ON_LINE: usize = 2;

/// For example `Freeze in 14m 09s`.
pub(super) fn title(tracked: &TrackedEvent, now: Moment) -> String {
    let name = tracked.event.event_type.as_str();
    match Start::of(tracked, now.wall) {
        Start::Never if tracked.is_pending() => format!("{name} (advisory)"),
        Start::Never => format!("{name} ended"),
        Start::Started(_) => format!("{name} in progress"),
        Start::Approved | Start::MayBeApproved | Start::NotAnnounced => {
            format!("{name} may start now")
        }
        Start::AboutToBeApproved => format!("{name} may start soon"),
        Start::NotBefore(due) => {
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
pub(super) fn list(
    title: &str,
    testid: &str,
    events: &[&TrackedEvent],
    approvals: &BTreeMap<EventId, Approval>,
    now: Moment,
) -> Markup {
    let rows = html! {
        ul.rows {
            @for tracked in events.iter().take(MAX_LISTED) {
                li { (row(tracked, approvals.get(&tracked.event.id), now)) }
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

fn row(tracked: &TrackedEvent, approval: Option<&Approval>, now: Moment) -> Markup {
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
            (facts(tracked, approval))
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
            @match Start::of(tracked, now.wall) {
                Start::Never => { "advisory, no maintenance is scheduled" },
                Start::Started(_) => { "in progress" },
                Start::Approved | Start::MayBeApproved | Start::NotAnnounced => { "may start at any moment" },
                Start::AboutToBeApproved => { "may start soon" },
                Start::NotBefore(due) => { "earliest start: " (countdown_element(due, now)) },
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
        (tracked.approval.decided_at, "Approval decided"),
        (
            tracked.approval.withdrawn_at,
            "Decision to approve withdrawn",
        ),
        (tracked.approval.sent_at, "Approval sent"),
        (tracked.approval.accepted_at, "Approved by this exporter"),
        (
            tracked.approval.elsewhere_at,
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
