//! The status page: what a person who was just paged sees on a phone.
//!
//! A projection: one picture and the time in, HTML out. It is whole without script and style; the script lets the
//! countdowns run and takes in a newer page every few seconds. What it must never do: look like an all-clear while
//! nothing is known.

mod about;
mod event;
mod labels;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::ProbeResult;
use crate::{
    event::EventScope,
    lifecycle::{Phase, TrackedEvent},
    snapshot::Snapshot,
    text::excerpt,
    time::{Moment, Timestamp, in_words},
};

/// Events of one kind that are listed; the rest is in the JSON.
const MAX_LISTED: usize = 100;
/// Characters of a foreign text; Azure's are shorter.
const MAX_TEXT: usize = 1_000;
/// Events of this VM that are shown large.
const MAX_CARDS: usize = 3;
/// Lists longer than this are closed at first.
const MAX_OPEN: usize = 5;

/// The page, as of `now`.
pub fn page(
    snapshot: &Snapshot,
    telemetry_path: &str,
    serving: &ProbeResult,
    now: Moment,
) -> String {
    let shown = Shown::new(snapshot);
    let title = title(snapshot, &shown, now);
    let more = shown.own.get(MAX_CARDS..).unwrap_or_default();
    let markup = document(
        "",
        &title,
        &html! {
            header.top {
                img.mark src={ "assets/icon.svg" (VERSION_QUERY) } alt="" width="36" height="36";
                div {
                    h1 { (plain(snapshot.vm_name.as_deref().unwrap_or("This VM"))) }
                    p.sub { "Azure Scheduled Events" }
                }
            }
            p.lost role="status" { "This exporter does not answer. What is shown is old." }
            main data-now=(unix_millis(now.wall)) {
                (alarm(snapshot, now))
                section aria-label="Events of this VM" data-testid="own" {
                    @if shown.own.is_empty() {
                        (headline(snapshot, &shown, now))
                    }
                    @for tracked in shown.own.iter().take(MAX_CARDS) {
                        (event::card(tracked, snapshot.approvals.get(&tracked.event.id), now))
                    }
                    (event::list("More events of this VM", "own-more", more, now))
                }
                (event::list("Other VMs of the set", "neighbours", &shown.neighbours, now))
                (event::list("Ended lately", "ended", &shown.ended, now))
                (about::section(snapshot, serving, now))
            }
            (about::footer(telemetry_path))
        },
    );
    markup.into_string()
}

/// The page for a path that there is not.
pub fn not_found() -> String {
    let markup = document(
        "/",
        "Not found",
        &html! {
            main {
                section.state.none {
                    h2 { "There is no such page" }
                    p { a href="/" { "To the status page" } }
                }
            }
        },
    );
    markup.into_string()
}

/// A query that makes a new version's style and script other than the old one's.
const VERSION_QUERY: &str = concat!(
    "?v=",
    env!("CARGO_PKG_VERSION"),
    "-",
    env!("BUILD_REVISION")
);

/// `base` is the way to the root: none from the root itself, so that the page works below another path of a proxy.
fn document(base: &str, title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) }
                link rel="icon" type="image/svg+xml" href={ (base) "assets/icon.svg" (VERSION_QUERY) };
                link rel="stylesheet" href={ (base) "assets/status.css" (VERSION_QUERY) };
                script defer src={ (base) "assets/status.js" (VERSION_QUERY) } {}
                noscript { meta http-equiv="refresh" content="10"; }
            }
            body { (body) }
        }
    }
}

/// The events, by where they stand on the page.
struct Shown<'a> {
    /// Pending, and naming this VM or perhaps naming it; what is going on comes first, then what is due first.
    own: Vec<&'a TrackedEvent>,
    neighbours: Vec<&'a TrackedEvent>,
    /// What ended last comes first.
    ended: Vec<&'a TrackedEvent>,
}

impl<'a> Shown<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let (mut neighbours, mut own): (Vec<_>, Vec<_>) = snapshot
            .pending()
            .partition(|tracked| tracked.scope == EventScope::Other);
        own.sort_by_key(|tracked| urgency(tracked));
        neighbours.sort_by_key(|tracked| urgency(tracked));
        let mut ended: Vec<_> = snapshot.ended().collect();
        ended.sort_by_key(|tracked| std::cmp::Reverse(tracked.end.map(|end| end.at)));
        Self {
            own,
            neighbours,
            ended,
        }
    }
}

fn urgency(tracked: &TrackedEvent) -> (bool, bool, Option<Timestamp>) {
    let at = tracked.event.not_before;
    (tracked.phase() != Phase::Started, at.is_none(), at)
}

fn title(snapshot: &Snapshot, shown: &Shown<'_>, now: Moment) -> String {
    let state = match shown.own.first() {
        Some(tracked) => event::in_short(tracked, now),
        None if !snapshot.has_document => "Not known yet".to_owned(),
        None if !snapshot.health.is_up() => "Out of date".to_owned(),
        None => "Nothing scheduled".to_owned(),
    };
    let name = snapshot.vm_name.as_deref().unwrap_or("this VM");
    format!(
        "{} · {} · Azure Scheduled Events",
        plain(&state),
        plain(name)
    )
}

/// What is said where no event of this VM is pending. Only a document of which the last poll says that it still holds is
/// an all-clear.
fn headline(snapshot: &Snapshot, shown: &Shown<'_>, now: Moment) -> Markup {
    let (class, mark, says, adds) = if !snapshot.has_document {
        (
            "none",
            "?",
            "Not known yet",
            "The metadata service has not given a list of events so far. Something may be scheduled.",
        )
    } else if snapshot.health.is_up() {
        ("clear", "✓", "Nothing is scheduled", "")
    } else {
        (
            "none",
            "?",
            "Nothing was scheduled when last heard",
            "What has been announced since is not known.",
        )
    };
    html! {
        div.state.(class) data-testid="headline" {
            span.mark aria-hidden="true" { (mark) }
            div {
                h2 aria-live="polite" { (says) }
                @if !adds.is_empty() {
                    p { (adds) }
                }
                @if !shown.neighbours.is_empty() {
                    p { "Other VMs of the set are named by " (counted(shown.neighbours.len(), "event")) "." }
                }
                p.fresh { (freshness(snapshot, now)) }
            }
        }
    }
}

/// How old the knowledge is.
fn freshness(snapshot: &Snapshot, now: Moment) -> Markup {
    html! {
        @if let Some(at) = snapshot.health.last_success {
            "Last answer from Azure: " (past(at.wall, now)) " ago"
        } @else if snapshot.has_document {
            "Known from before this exporter was restarted; not confirmed since"
        } @else {
            "No answer from Azure so far"
        }
    }
}

/// What a person must know before believing the rest: that polling fails.
fn alarm(snapshot: &Snapshot, now: Moment) -> Markup {
    let Some(failure) = &snapshot.health.failure else {
        return html! {};
    };
    html! {
        div.alarm role="alert" data-testid="alarm" {
            strong { "Polling fails" } " since " (past(failure.since, now)) ". "
            (labels::failure(failure.reason))
            @if snapshot.has_document {
                " What is shown may be out of date. "
                (freshness(snapshot, now)) "."
            }
        }
    }
}

/// How long ago something was, as text that the script keeps up to date.
fn past(at: Timestamp, now: Moment) -> Markup {
    let ago = now.wall.saturating_since(at);
    html! {
        time datetime=(at.rfc3339()) data-since=(unix_millis(at)) {
            (in_words(std::time::Duration::from_secs(ago.as_secs())))
        }
    }
}

/// A point in time, in UTC; the script adds the local form.
fn at(at: Timestamp) -> Markup {
    html! {
        time datetime=(at.rfc3339()) data-at=(unix_millis(at)) { (at.rfc1123().replace("GMT", "UTC")) }
        " " span.local hidden {}
    }
}

fn unix_millis(at: Timestamp) -> String {
    format!("{:.0}", at.as_unix_seconds() * 1_000.0)
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Foreign text as it can be shown: what is invisible, or turns the direction of the text round it, becomes U+FFFD,
/// and what is endless is cut. Markup is escaped where the text is put into the page.
fn plain(text: &str) -> String {
    let shown = |c: char| match c {
        '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    excerpt(text, MAX_TEXT).chars().map(shown).collect()
}

/// An element of a description list; nothing where there is nothing to say.
fn fact(name: &str, value: &Markup) -> Markup {
    html! {
        @if !value.0.is_empty() {
            div { dt { (name) } dd { (PreEscaped(&value.0)) } }
        }
    }
}

#[cfg(test)]
mod tests;
