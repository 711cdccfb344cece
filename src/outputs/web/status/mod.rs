//! The HTML status page of one snapshot, for an on-call engineer on a phone.
//!
//! The page is complete without script and style. The script updates the countdowns and reloads the content every few
//! seconds. The page says that no events are scheduled only if the last poll succeeded.

mod event;

use std::time::Duration;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{WebSettings, probe::ProbeResult};
use crate::{
    azure::event::EventScope,
    base::{
        text::excerpt,
        time::{Moment, Timestamp, in_words},
    },
    core::{
        assessment::{Judgement, judge},
        snapshot::Snapshot,
    },
};

/// Events in one list; the JSON has all of them.
const MAX_LISTED: usize = 100;
/// Characters of a text from Azure, which normally sends shorter ones.
const MAX_TEXT: usize = 1_000;
/// Events for this VM that are shown in full.
const MAX_CARDS: usize = 3;

const DOCUMENTATION: &str = if cfg!(windows) {
    "https://learn.microsoft.com/azure/virtual-machines/windows/scheduled-events"
} else {
    "https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events"
};

pub(super) fn page(
    snapshot: &Snapshot,
    settings: &WebSettings,
    serving: &ProbeResult,
    now: Moment,
) -> String {
    let [own, other, advisories, ended] = event_groups(snapshot, now);
    let state = own.first().map(|first| first.words(snapshot).summary);
    let state = state.unwrap_or_else(|| no_events(snapshot, now).0.to_owned());
    let name = snapshot.vm_name.as_deref();
    let title = [
        state.as_str(),
        name.unwrap_or("this VM"),
        "Azure Scheduled Events",
    ]
    .map(plain);
    let list = |title, testid, listed: &[_]| event::list(title, testid, listed, snapshot, now);
    let more = own.get(MAX_CARDS..).unwrap_or_default();
    let markup = document(
        &title.join(" · "),
        &html! {
            @if let Some((url, speed)) = &settings.simulator {
                p.simulated role="note" {
                    strong { "Simulated" } ": these events are not from Azure. "
                    @if *speed > 1.0 {
                        "Time runs " (speed) " times faster: 15 minutes take "
                        (in_words(Duration::from_mins(15).div_f64(*speed))) ". "
                    }
                    a href=(url) { "Control the simulator" }
                }
            }
            header.top {
                img.mark src={ "assets/icon.svg" (VERSION_QUERY) } alt="" width="36" height="36";
                div {
                    h1 { (plain(name.unwrap_or("This VM"))) }
                    p.sub { "Azure Scheduled Events" }
                }
            }
            p.lost role="status" { "The exporter does not respond. This page may be out of date." }
            main data-now=(unix_millis(now.wall)) {
                (polling_alert(snapshot, now))
                (name_alert(snapshot))
                section aria-label="Events for this VM" data-testid="own" {
                    @if own.is_empty() {
                        (headline(snapshot, other.len(), advisories.len(), now))
                    }
                    @for judgement in own.iter().take(MAX_CARDS) {
                        (event::card(judgement, snapshot, now))
                    }
                    (list("More events for this VM", "own-more", more))
                }
                (list("Advisories", "advisories", &advisories))
                (list("Events for other VMs", "neighbours", &other))
                (list("Recently ended", "ended", &ended))
                (about(snapshot, serving, now))
            }
            (footer(&settings.telemetry_path))
        },
    );
    markup.into_string()
}

/// Part of the URL of each asset, so that a browser does not use those of another version.
const VERSION_QUERY: &str = concat!(
    "?v=",
    env!("CARGO_PKG_VERSION"),
    "-",
    env!("BUILD_REVISION")
);

/// Links are relative, so that the page works below a path of a proxy.
fn document(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) }
                link rel="icon" type="image/svg+xml" href={ "assets/icon.svg" (VERSION_QUERY) };
                link rel="stylesheet" href={ "assets/status.css" (VERSION_QUERY) };
                script defer src={ "assets/status.js" (VERSION_QUERY) } {}
                noscript { meta http-equiv="refresh" content="10"; }
            }
            body { (body) }
        }
    }
}

/// Pending events that name this VM or may name it, and those of other VMs, both with the most urgent first; advisories,
/// those of this VM first; ended events, the latest first.
fn event_groups(snapshot: &Snapshot, now: Moment) -> [Vec<Judgement<'_>>; 4] {
    let judge = |tracked| judge(tracked, now);
    let (mut other, mut own): (Vec<_>, Vec<_>) = snapshot
        .pending()
        .map(judge)
        .partition(|it| it.tracked.scope == EventScope::Other);
    for pending in [&mut own, &mut other] {
        pending.sort_by(|one, other| other.priority().total_cmp(&one.priority()));
    }
    let mut advisories: Vec<_> = snapshot.advisories().map(judge).collect();
    advisories.sort_by_key(|it| it.tracked.scope == EventScope::Other);
    let mut ended: Vec<_> = snapshot.ended().map(judge).collect();
    ended.sort_by_key(|it| std::cmp::Reverse(it.tracked.end.map(|end| end.at)));
    [own, other, advisories, ended]
}

/// What is known when no event of this VM is pending: for the title, for the headline, and a reason for doubt.
fn no_events(snapshot: &Snapshot, now: Moment) -> (&'static str, &'static str, Markup) {
    let poll = &snapshot.poll;
    let (title, detail) = if !snapshot.has_document() {
        let detail = html! { "The metadata service has not returned a list of events yet. An event may be scheduled." };
        ("No data yet", detail)
    } else if poll.is_stale(now) {
        let detail = html! { "The last list of events is too old. An event may be scheduled." };
        ("Events unknown", detail)
    } else if !poll.is_up(now) {
        let heading = "No events were scheduled at the last successful poll";
        let detail = html! { "Events announced since then are unknown." };
        return ("Out of date", heading, detail);
    } else if poll.unreadable_entries > 0 {
        let detail = html! { "Entries of the last document that could not be read, and may be events: " (poll.unreadable_entries) ". The log has the details." };
        ("Unreadable entries", detail)
    } else if let Some(until) = poll.warming_up_until(now) {
        let until = until.time_of_day();
        if snapshot.events.is_empty() {
            let detail = html! { "Scheduled Events may just have been enabled. Events may take until " (until) " to appear." };
            ("No events yet", detail)
        } else {
            (
                "No more events yet",
                html! { "More may take until " (until) " to appear." },
            )
        }
    } else {
        ("No events scheduled", html! {})
    };
    (title, title, detail)
}

fn headline(snapshot: &Snapshot, others: usize, advisories: usize, now: Moment) -> Markup {
    let (_, heading, detail) = no_events(snapshot, now);
    let (class, mark) = if detail.0.is_empty() {
        ("clear", "✓")
    } else {
        ("none", "?")
    };
    html! {
        div.state.(class) data-testid="headline" {
            span.mark aria-hidden="true" { (mark) }
            div {
                h2 aria-live="polite" { (heading) }
                @if !detail.0.is_empty() { p { (detail) } }
                @if advisories > 0 { p { "See the advisories below." } }
                @if others > 0 { p { (others) @if others == 1 { " event" } @else { " events" } " for other VMs." } }
                p.fresh { (freshness(snapshot, now)) }
            }
        }
    }
}

fn freshness(snapshot: &Snapshot, now: Moment) -> Markup {
    html! {
        @if let Some(at) = snapshot.poll.last_success {
            "Last successful poll: " (elapsed(at.wall, now)) " ago"
        } @else if let Some(at) = snapshot.poll.last_success_at() {
            "Last successful poll: " (elapsed(at, now)) " ago, before the restart of the exporter; not confirmed since"
        } @else if snapshot.has_document() {
            "Restored from before the restart of the exporter; not confirmed since"
        } @else {
            "No successful poll yet"
        }
    }
}

fn polling_alert(snapshot: &Snapshot, now: Moment) -> Markup {
    let Some(failure) = &snapshot.poll.failure else {
        return html! {
            @if snapshot.poll.age(now).is_some() && !snapshot.poll.is_up(now) {
                div.alarm role="alert" data-testid="alarm" {
                    strong { "The events shown are out of date" } ". " (freshness(snapshot, now)) "."
                }
            }
        };
    };
    html! {
        div.alarm role="alert" data-testid="alarm" {
            strong { "Polling has failed" } " for " (elapsed(failure.since.wall, now)) ": "
            code { (plain(&failure.error.message)) } ". "
            @if snapshot.has_document() {
                "The events shown may be out of date. "
                (freshness(snapshot, now)) "."
            }
        }
    }
}

fn name_alert(snapshot: &Snapshot) -> Markup {
    let vm_name = snapshot.vm_name.as_deref();
    html! {
        @if let Some(other) = snapshot.other_vm_name() {
            div.alarm role="alert" data-testid="name-contradiction" {
                strong { "The name of this VM is contradictory" } ". "
                "--vm.name is " code { (plain(vm_name.unwrap_or_default())) }
                ", but instance metadata name this VM " code { (plain(other)) } ". "
                "Events with either name count as events for this VM, and nothing is approved. "
                "Correct --vm.name, or omit it."
            }
        } @else if let (None, Some(error)) = (vm_name, &snapshot.identity_error) {
            div.alarm role="alert" data-testid="name-unknown" {
                strong { "The name of this VM is unknown" } ". "
                "Instance metadata: " code { (plain(&error.message)) } ". "
                "It is not known which events are for this VM. Where there is no instance metadata, set --vm.name."
            }
        } @else if snapshot.is_vm_name_unmatched {
            div.alarm role="alert" data-testid="name-unmatched" {
                strong { "The name of this VM may be wrong" } ". "
                "Since the exporter started, no event has named " code { (plain(vm_name.unwrap_or_default())) }
                ", but events name other VMs. Instance metadata do not name this VM: check --vm.name."
            }
        }
    }
}

fn about(snapshot: &Snapshot, serving: &ProbeResult, now: Moment) -> Markup {
    let poll = &snapshot.poll;
    let last_poll = if poll.is_up(now) {
        "succeeded"
    } else if poll.failure.is_some() {
        "failed"
    } else {
        "not finished yet"
    };
    let requests = &snapshot.requests;
    let failed: u64 = requests.failures.values().sum();
    let name = snapshot.vm_name.as_deref().unwrap_or_default();
    let serving = serving.as_ref().copied().unwrap_or_else(String::as_str);
    html! {
        section.about aria-label="About this exporter" data-testid="about" {
            div {
                h2 { "Polling" }
                dl.facts {
                    (fact("Last poll", &html! { (last_poll) }))
                    (fact("Freshness", &freshness(snapshot, now)))
                    (fact("Requests", &html! { (requests.requests) ", " (failed) " failed" }))
                    @if let Some(incarnation) = poll.incarnation() {
                        (fact("Document", &html! { "incarnation " (incarnation) }))
                    }
                    (fact("Load balancer", &html! { (plain(serving)) }))
                }
            }
            @if snapshot.identity.is_some() || snapshot.vm_name.is_some() {
                div {
                    h2 { "This VM" }
                    dl.facts {
                        (fact("Name", &html! { (plain(name)) }))
                        @if let Some(owner) = &snapshot.owner {
                            (fact("Owner", &html! { (plain(owner)) }))
                        }
                        @if let Some(vm) = snapshot.identity.as_deref() {
                            @for (label, value) in [
                                ("Computer", &vm.computer_name),
                                ("Scale set", &vm.scale_set),
                                ("Size", &vm.vm_size),
                                ("Location", &vm.location),
                                ("Zone", &vm.zone),
                                ("Resource group", &vm.resource_group),
                                ("VM ID", &vm.vm_id),
                            ] {
                                (fact(label, &html! { (plain(value)) }))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn footer(telemetry_path: &str) -> Markup {
    html! {
        footer {
            nav aria-label="Links" {
                a href=(telemetry_path.trim_start_matches('/')) { "Metrics" }
                a href="api/v1/events" { "JSON" }
                a href="-/healthy" { "Healthy" }
                a href="-/ready" { "Ready" }
                a href="-/serving" { "Serving" }
                a href=(DOCUMENTATION) rel="noreferrer" { "Azure documentation" }
            }
            p { "azure-scheduled-events-exporter " (env!("CARGO_PKG_VERSION")) " (" (env!("BUILD_REVISION")) ")" }
        }
    }
}

/// The time since `at`, which the script keeps up to date.
fn elapsed(at: Timestamp, now: Moment) -> Markup {
    let elapsed = now.wall.saturating_since(at);
    html! {
        time datetime=(at.rfc3339()) data-since=(unix_millis(at)) {
            (in_words(Duration::from_secs(elapsed.as_secs())))
        }
    }
}

/// A time in UTC; the script adds the local time.
fn at(at: Timestamp) -> Markup {
    html! {
        time datetime=(at.rfc3339()) data-at=(unix_millis(at)) { (at.format("%Y-%m-%d %H:%M:%S UTC")) }
        " " span.local hidden {}
    }
}

fn unix_millis(at: Timestamp) -> String {
    format!("{:.0}", at.as_unix_seconds() * 1_000.0)
}

/// Untrusted text for display. Markup is escaped where the text is put into the page.
fn plain(text: &str) -> String {
    excerpt(text, MAX_TEXT)
}

/// One entry of a description list; nothing if the value is empty.
fn fact(name: &str, value: &Markup) -> Markup {
    html! {
        @if !value.0.is_empty() {
            div { dt { (name) } dd { (PreEscaped(&value.0)) } }
        }
    }
}

#[cfg(test)]
mod tests;
