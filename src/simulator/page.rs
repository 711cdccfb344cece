//! Renders the simulator's page: current events and faults, and a button for each scenario.
//!
//! The page loads only its own style sheet, runs no script and refreshes itself. All values are escaped.

use maud::{DOCTYPE, Markup, html};

use super::{
    counts::RequestCounts,
    load::catalog,
    world::{EventPhase, PendingEvent, World},
};
use crate::time::{Moment, in_words};

pub(super) const STYLE: &str = include_str!("page.css");

/// The JSON has all events.
const MAX_EVENTS: usize = 25;
/// VM names per event.
const MAX_NAMES: usize = 6;

pub(super) fn page(world: &World, counts: &RequestCounts, now: Moment) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="refresh" content="5";
                title { "Simulated Azure" }
                link rel="stylesheet" href="/simulator/page.css";
            }
            body {
                main {
                    h1 { "Simulated Azure" }
                    p {
                        "Simulates the metadata service of the VM " strong { (world.vm().name()) } ". Speed: "
                        (world.speed()) "×. DocumentIncarnation: " (world.incarnation()) "."
                    }
                    @if let Some((spec, end)) = world.fault(now) {
                        p.fault role="status" {
                            "Fault: " strong { (spec.fault.as_str()) } ", ends in "
                            (in_words(end.saturating_sub(now.monotonic)))
                        }
                    }
                    (events(world, now))
                    (runs(world))
                    (buttons())
                    (requests(counts))
                    footer {
                        "JSON: " a href="/simulator/state" { "/simulator/state" } ", "
                        a href="/simulator/scenarios" { "/simulator/scenarios" } ". Simulated service: "
                        code { "/metadata/scheduledevents?api-version=2020-07-01" } " with the header "
                        code { "Metadata: true" } "."
                    }
                }
            }
        }
    };
    markup.into_string()
}

fn events(world: &World, now: Moment) -> Markup {
    let pending = world.pending();
    html! {
        h2 { "Events" }
        @if pending.is_empty() {
            p { "No event is pending." }
        } @else {
            ul.events {
                @for event in pending.iter().take(MAX_EVENTS) {
                    li { (entry(event, now)) }
                }
            }
        }
        @if pending.len() > MAX_EVENTS {
            p { (pending.len() - MAX_EVENTS) " more events are in " a href="/simulator/state" { "/simulator/state" } "." }
        }
    }
}

fn entry(event: &PendingEvent, now: Moment) -> Markup {
    let spec = &event.spec;
    let left = in_words(event.changes_at.saturating_sub(now.monotonic));
    let change = if event.will_start() {
        "starts"
    } else {
        "canceled"
    };
    let approved = if event.is_approved { "approved, " } else { "" };
    html! {
        p {
            strong { (spec.event_type) } " by " (spec.event_source) ", "
            @match event.phase {
                EventPhase::Started => { span.started { "Started" } ", ends in " (left) },
                EventPhase::Advisory => { "Advisory, ends in " (left) },
                EventPhase::Scheduled => { "Scheduled, " (approved) (change) " in " (left) },
            }
            @if let Some(not_before) = event.not_before { ", not before " (not_before.rfc1123()) }
        }
        p {
            (event.resources.iter().take(MAX_NAMES).map(AsRef::as_ref).collect::<Vec<_>>().join(", "))
            @if event.resources.len() > MAX_NAMES {
                " and " (event.resources.len() - MAX_NAMES) " more"
            }
        }
        p {
            @if !spec.description.is_empty() { (spec.description) " " }
            @match spec.duration_seconds {
                -1 => { "Duration unknown." },
                seconds => { "Duration " (seconds) " s." },
            }
        }
        p.small { code { (event.id.as_str()) } " scenario " (event.scenario) }
    }
}

fn runs(world: &World) -> Markup {
    html! {
        h2 { "Running scenarios" }
        @if world.runs().is_empty() {
            p { "No scenario has further announcements or faults." }
        } @else {
            ul {
                @for run in world.runs() {
                    @let scenario = &run.scenario;
                    li {
                        strong { (scenario.name) }
                        @if scenario.repeat_every.is_some() { ", round " (run.cycle() + 1) }
                        ": " (scenario.description)
                    }
                }
            }
        }
    }
}

fn buttons() -> Markup {
    html! {
        h2 { "Start a scenario" }
        form method="post" action="/simulator/start" {
            ul.buttons {
                @for (name, description) in catalog() {
                    li {
                        button name="scenario" value=(name) { (name) }
                        span { (description) }
                    }
                }
            }
        }
        form method="post" action="/simulator/clear" {
            button.clear { "Clear all" }
        }
    }
}

fn requests(counts: &RequestCounts) -> Markup {
    html! {
        h2 { "Requests" }
        dl {
            @for (what, count) in counts.all() {
                div { dt { (what) } dd { (count) } }
            }
        }
    }
}
