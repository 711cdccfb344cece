//! Renders the simulator's page: current events and faults, and a button for each scenario.
//!
//! The page is complete without its script, which replaces the parts that change. It never reloads by itself, so that a
//! person who uses a keyboard or a screen reader keeps the place. All values are escaped.

use std::collections::BTreeSet;

use maud::{DOCTYPE, Markup, html};
use serde_json::json;

use super::{
    scenario_file::catalog,
    world::{PendingEvent, World},
};
use crate::{
    azure::event::Status,
    base::time::{Moment, in_words},
};

/// Other VMs on the page; `/simulator/state` has all.
const MAX_NEIGHBOURS: usize = 20;

/// What the page loads: path, content type and content.
pub(super) const ASSETS: [(&str, &str, &str); 3] = [
    (
        "/simulator/page.css",
        "text/css; charset=utf-8",
        include_str!("page.css"),
    ),
    (
        "/simulator/page.js",
        "text/javascript; charset=utf-8",
        include_str!("page.js"),
    ),
    (
        "/simulator/icon.svg",
        "image/svg+xml",
        include_str!("icon.svg"),
    ),
];

pub(super) fn page(world: &World, now: Moment) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Simulated Azure" }
                link rel="icon" type="image/svg+xml" href="/simulator/icon.svg";
                link rel="stylesheet" href="/simulator/page.css";
                script defer src="/simulator/page.js" {}
            }
            body {
                main {
                    h1 { "Simulated Azure" }
                    p.lost role="status" { "The simulator does not respond. This page may be out of date." }
                    noscript { p { "This page does not update itself. " a href="/" { "Reload" } } }
                    @if let Some(url) = &world.exporter_url {
                        p { a href=(url) { "Status page of the exporter" } }
                    }
                    form method="post" action="/simulator/clear" {
                        button.clear { "Clear all" }
                    }
                    div #state data-live {
                        p {
                            "Simulates the metadata service of the VM " strong { (world.vm.name) } ". Speed: "
                            (world.speed) "×. DocumentIncarnation: " (world.incarnation) "."
                        }
                        @if let Some((spec, end)) = world.fault(now) {
                            p.fault {
                                "Fault: " strong { (json!(spec.fault).as_str().unwrap_or_default()) } ", ends in "
                                (in_words(end - now.monotonic))
                            }
                        }
                        (events(world, now))
                        (runs(world))
                        (neighbours(world))
                    }
                    (buttons())
                    div #requests data-live {
                        h2 { "Requests" }
                        dl {
                            @for (what, count) in &world.requests {
                                div { dt { (what) } dd { (count) } }
                            }
                        }
                    }
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

/// The other VMs that an exporter can be run for.
fn neighbours(world: &World) -> Markup {
    let others = world.vm_names.iter().filter(|name| **name != world.vm.name);
    let others: Vec<_> = others.take(MAX_NEIGHBOURS).collect();
    html! {
        @if !others.is_empty() {
            h2 { "Other VMs" }
            p { "Each has a metadata service of its own below this path, for " code { "--imds.url" } ":" }
            ul {
                @for name in others {
                    li { code { "/vm/" (name) } }
                }
            }
        }
    }
}

fn events(world: &World, now: Moment) -> Markup {
    html! {
        h2 { "Events" }
        @if world.pending.is_empty() {
            p { "No event is pending." }
        } @else {
            ul.events {
                @for event in &world.pending {
                    li { (entry(event, now)) }
                }
            }
        }
    }
}

fn entry(event: &PendingEvent, now: Moment) -> Markup {
    let spec = &event.spec;
    let left = in_words(event.changes_at - now.monotonic);
    let change = if event.will_start {
        "starts"
    } else {
        "canceled"
    };
    let approved = if event.is_approved { "approved, " } else { "" };
    html! {
        p {
            strong { (spec.event_type) } " by " (spec.event_source) ", "
            @match &event.status {
                Status::Started => { span.started { "Started" } ", ends in " (left) },
                Status::Scheduled => { "Scheduled, " (approved) (change) " in " (left) },
                other => { (other.as_str()) ", ends in " (left) },
            }
            @if let Some(not_before) = event.not_before { ", not before " (not_before.rfc1123()) }
        }
        p { (event.resources.join(", ")) }
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
    let announced = world.pending.iter().map(|event| &*event.scenario);
    let is_run = |name: &str| world.runs.iter().any(|run| *run.scenario.name == *name);
    let announced: BTreeSet<_> = announced.filter(|name| !is_run(name)).collect();
    html! {
        h2 { "Running scenarios" }
        @if world.runs.is_empty() && announced.is_empty() {
            p { "No scenario is running." }
        } @else {
            ul {
                @for name in announced {
                    li { strong { (name) } ": all its events are announced" }
                }
                @for run in &world.runs {
                    @let scenario = &run.scenario;
                    li {
                        strong { (scenario.name) }
                        @if scenario.repeat_every.is_some() { ", round " (run.cycle + 1) }
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
    }
}
