//! One event on the page: a card for this VM, one line for the others.

use maud::{Markup, html};

use super::{MAX_LISTED, at, elapsed, fact, plain, unix_millis};
use crate::{
    azure::event::{Event, EventScope, Impact},
    base::time::{Moment, Timestamp, in_words},
    core::{
        approval::ApprovalDecision,
        assessment::{Judgement, Start},
        lifecycle::TrackedEvent,
        snapshot::Snapshot,
    },
};

pub(super) fn card(judgement: &Judgement<'_>, snapshot: &Snapshot, now: Moment) -> Markup {
    let event = &judgement.tracked.shown;
    let words = judgement.words(snapshot);
    let approval = snapshot.approvals.get(&event.id);
    html! {
        article.event.(class(event))
            data-testid="event" data-event-id=(plain(event.id.as_str())) data-phase=(judgement.tracked.phase().as_str()) {
            header {
                h2 { (words.summary) }
                span.pill data-status { (plain(event.status.as_str())) }
                @if judgement.tracked.scope == EventScope::Unknown {
                    span.pill.maybe { "may affect this VM" }
                }
            }
            (timer(judgement, approval, now))
            dl.facts {
                @for (label, text) in &words.lines { (fact(label, &html! { (text) })) }
                (fact("Approval", &approval_decision(approval)))
            }
        }
    }
}

pub(super) fn list(
    title: &str,
    testid: &str,
    events: &[Judgement<'_>],
    snapshot: &Snapshot,
    now: Moment,
) -> Markup {
    html! {
        @if !events.is_empty() {
            section.list aria-label=(title) data-testid=(testid) {
                h2 { (title) }
                ul.rows {
                    @for judgement in events.iter().take(MAX_LISTED) { (row(judgement, snapshot, now)) }
                }
                @if events.len() > MAX_LISTED {
                    p.more { (events.len() - MAX_LISTED) " more in the " a href="api/v1/events" { "JSON" } "." }
                }
            }
        }
    }
}

fn row(judgement: &Judgement<'_>, snapshot: &Snapshot, now: Moment) -> Markup {
    let tracked = judgement.tracked;
    let approval = snapshot.approvals.get(&tracked.shown.id);
    html! {
        li.event.row.(class(&tracked.shown))
            data-testid="event" data-event-id=(plain(tracked.shown.id.as_str())) data-phase=(tracked.phase().as_str()) {
            span.what { (judgement.words(snapshot).summary) }
            @if let Some(end) = tracked.end {
                span.when { (elapsed(end.at, now)) " ago" }
            } @else if let Start::NotBefore(due) = judgement.start {
                span.when { (countdown(due, now)) }
            }
            @if let Some(decision) = approval.filter(|it| it.reason() != Some("off")) {
                div.approval { (approval_decision(Some(decision))) }
            }
        }
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

/// The time to the start, or to the approval that comes before it, or since the start. Nothing for an event that may
/// start at any moment: the title says so.
fn timer(judgement: &Judgement<'_>, approval: Option<&ApprovalDecision>, now: Moment) -> Markup {
    let tracked = judgement.tracked;
    let (label, due) = match (judgement.start, approval) {
        (Start::NotBefore(due), _) => ("Earliest start in", due),
        (Start::AboutToBeApproved, Some(ApprovalDecision::Draining { until, .. })) => {
            ("Approval is sent in", *until)
        }
        (Start::AboutToBeApproved, Some(ApprovalDecision::Failed { retry_at, .. })) => {
            ("Approval is retried in", *retry_at)
        }
        (Start::Started(since), _) => {
            return html! {
                div.timer {
                    span.label { "In progress for" }
                    span.big { (elapsed(since, now)) }
                }
            };
        }
        _ => return html! {},
    };
    // An approval that would come after the start is not sent.
    let start = tracked.shown.not_before.filter(|start| *start <= due);
    let (label, due) = start.map_or((label, due), |start| ("Earliest start in", start));
    html! {
        div.timer data-overdue[due <= now.wall] {
            span.label { (label) }
            span.label.overdue { "May start" }
            span.big role="timer" { (countdown(due, now)) }
            p { (at(due)) }
        }
        (progress(tracked, due, now))
    }
}

/// The time until `due`, which the script keeps up to date.
fn countdown(due: Timestamp, now: Moment) -> Markup {
    let left = due.saturating_since(now.wall).as_secs();
    html! {
        span.countdown data-testid="countdown" data-not-before=(unix_millis(due)) {
            @if left == 0 { "any moment" } @else { (in_words(std::time::Duration::from_secs(left))) }
        }
    }
}

fn progress(tracked: &TrackedEvent, due: Timestamp, now: Moment) -> Markup {
    let since = |at: Timestamp| at.saturating_since(tracked.first_seen_at).as_secs_f64();
    let (notice, elapsed) = (since(due), since(now.wall));
    html! {
        @if notice > 0.0 {
            progress aria-label="Elapsed notice" max="1"
                value=(format!("{:.3}", (elapsed / notice).min(1.0)))
                data-from=(unix_millis(tracked.first_seen_at)) data-to=(unix_millis(due)) {}
        }
    }
}

fn class(event: &Event) -> &'static str {
    match event.impact() {
        Impact::None => "advice",
        Impact::Pause => "pause",
        Impact::Restart => "restart",
        Impact::Removal => "gone",
        Impact::Unknown => "unknown",
    }
}
