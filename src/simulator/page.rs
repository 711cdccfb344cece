//! The page of the simulator: what is going on, and a button for each scenario. Pure: a world in, HTML out.
//!
//! It loads nothing but its own style sheet, runs no script, and renews itself; every value is escaped.

use maud::{DOCTYPE, Markup, html};

use super::{
    catalog::catalog,
    counts::RequestCounts,
    world::{Pending, World},
};
use crate::time::{Moment, in_words};

/// The style sheet of the page.
pub(super) const STYLE: &str = include_str!("page.css");

/// Events that are shown; the rest is in the JSON.
const MAX_EVENTS: usize = 25;
/// Names of VMs that are shown for each.
const MAX_NAMES: usize = 6;

/// The whole page.
pub fn page(world: &World, counts: &RequestCounts, now: Moment) -> String {
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
                        "A stand-in for the metadata service of the VM " strong { (world.vm().name()) } ". Speed: "
                        (world.speed()) "×. DocumentIncarnation: " (world.incarnation()) "."
                    }
                    @if let Some((fault, over)) = world.fault(now) {
                        p.fault role="status" {
                            "Fault: " strong { (fault.as_str()) } ", over in "
                            (in_words(over.saturating_sub(now.monotonic)))
                        }
                    }
                    (events(world, now))
                    (playing(world))
                    (buttons())
                    (requests(counts))
                    footer {
                        "Also for programs: " a href="/simulator/state" { "/simulator/state" } ", "
                        a href="/simulator/scenarios" { "/simulator/scenarios" } ". The service itself: "
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
            p { (pending.len() - MAX_EVENTS) " more are in " a href="/simulator/state" { "/simulator/state" } "." }
        }
    }
}

fn entry(event: &Pending, now: Moment) -> Markup {
    let planned = &event.planned;
    let left = in_words(event.changes_at.saturating_sub(now.monotonic));
    let change = if planned.canceled_after.is_some() {
        "canceled"
    } else {
        "starts"
    };
    html! {
        p {
            strong { (planned.event_type) } " by " (planned.event_source) ", "
            @match event.not_before {
                None => { span.started { "Started" } ", over in " (left) },
                Some(not_before) => {
                    "Scheduled, " (change) " in " (left) ", not before " (not_before.rfc1123())
                },
            }
        }
        p {
            (event.resources.iter().take(MAX_NAMES).map(AsRef::as_ref).collect::<Vec<_>>().join(", "))
            @if event.resources.len() > MAX_NAMES {
                " and " (event.resources.len() - MAX_NAMES) " more"
            }
        }
        p {
            @if !planned.description.is_empty() { (planned.description) " " }
            @match planned.duration_seconds {
                -1 => { "For an unknown time." },
                seconds => { "For " (seconds) " s." },
            }
        }
        p.small { code { (event.id.as_str()) } " scenario " (event.scenario) }
    }
}

fn playing(world: &World) -> Markup {
    html! {
        h2 { "Scenarios with something to come" }
        @if world.playing().is_empty() {
            p { "None: all that was started has been announced." }
        } @else {
            ul {
                @for playing in world.playing() {
                    @let scenario = playing.scenario();
                    li {
                        strong { (scenario.name) }
                        @if scenario.repeat_every.is_some() { ", round " (playing.cycle() + 1) }
                        ": " (scenario.description)
                    }
                }
            }
        }
    }
}

fn buttons() -> Markup {
    html! {
        h2 { "Start one" }
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
            button.clear { "End everything" }
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
