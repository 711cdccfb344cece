//! The log lines about an event: one for each transition, and one for each new decision about its approval.

use std::time::Duration;

use tracing::{info, warn};

use crate::{
    azure::event::{Event, EventScope, Impact, Source, resource_name},
    base::{
        log_id,
        text::{excerpt, sanitize},
        time::{MonotonicTime, Timestamp},
    },
    core::{
        approval::{ApprovalDecision, SkipReason},
        lifecycle::{TrackedEvent, Transition, TransitionKind, words_of},
    },
};

/// An event that changes with each poll must not fill the disk with the names of hundreds of VMs.
const MAX_LINES_WITH_TEXTS: u32 = 30;

/// Characters of these names in a line: journald splits a line of more than 48 KiB (`LineMax`).
const MAX_NAMES: usize = 20_000;

/// Events that flap by hundreds must not fill the disk.
const MAX_LINES_PER_MINUTE: u64 = 100;

/// Counts the lines of a minute, also those that it leaves out.
#[derive(Debug, Default)]
pub(super) struct LogLimit {
    began: MonotonicTime,
    /// About other VMs and documents, about this VM, and about its removal, which no other event hides.
    lines: [u64; 3],
}

impl LogLimit {
    /// Begins a new minute if the last one is over, and logs how many lines that left out.
    pub(super) fn begin_minute(&mut self, now: MonotonicTime, is_last: bool) {
        if now - self.began < Duration::from_mins(1) && !is_last {
            return;
        }
        let surplus = |lines: &u64| lines.saturating_sub(MAX_LINES_PER_MINUTE);
        let left_out: u64 = self.lines.iter().map(surplus).sum();
        if left_out > 0 {
            warn!(left_out, "log lines about events left out");
        }
        (self.began, self.lines) = (now, [0; 3]);
    }

    /// Whether a line is to be written: about an event of this VM, if given.
    pub(super) fn admits(&mut self, own: Option<&Event>) -> bool {
        let [others, ours, removal] = &mut self.lines;
        let lines = match own.map(Event::impact) {
            None => others,
            Some(Impact::Removal) => removal,
            Some(_) => ours,
        };
        *lines += 1;
        *lines <= MAX_LINES_PER_MINUTE
    }
}

/// The names of VMs, and the description. logfmt escapes a value with a space before its line is sanitized.
fn texts(tracked: &TrackedEvent) -> (Option<String>, Option<String>) {
    let versions = tracked.times_changed.saturating_add(tracked.times_ended);
    if versions >= MAX_LINES_WITH_TEXTS {
        return (None, None);
    }
    let names = tracked.shown.resources.iter().flatten();
    let names: Vec<_> = names.map(|name| resource_name(name)).collect();
    let description = tracked.shown.description_text();
    (
        Some(excerpt(&names.join(","), MAX_NAMES)),
        description.map(|text| sanitize(text).into_owned()),
    )
}

/// Logs a line about an event: fields of its own, then those of the event. The id is one of `log_id`.
macro_rules! event_line {
    ($level:ident, [$($id:ident)?], $message:literal, $tracked:ident, $($name:ident = $value:expr,)*) => {{
        let event = &$tracked.shown;
        let (resources, description) = texts($tracked);
        $level!(
            $(name: log_id::$id,)?
            $($name = $value,)*
            event_id = event.id.as_str(),
            event_type = event.event_type.as_str(),
            event_status = event.status.as_str(),
            event_source = event.source.as_ref().map_or("", Source::as_str),
            resources,
            not_before = event.not_before.map(Timestamp::rfc3339),
            duration_seconds = event.duration_seconds,
            description,
            physical_host = $tracked.physical_host(),
            $message
        )
    }};
}

pub(super) fn log_approval(approval: &ApprovalDecision, tracked: &TrackedEvent) {
    macro_rules! line {
        ($level:ident, $id:ident) => {
            event_line!(
                $level,
                [$id],
                "approval",
                tracked,
                decision = approval.decision(),
                reason = approval.reason(),
                at = approval.at().map(Timestamp::rfc3339),
                detail = approval.message(),
            )
        };
    }
    match approval {
        ApprovalDecision::Failed { .. } | ApprovalDecision::Withheld(SkipReason::GaveUp) => {
            line!(warn, APPROVAL_FAILED);
        }
        ApprovalDecision::Sent { .. } => line!(info, APPROVAL_SENT),
        _ => line!(info, APPROVAL_DECISION),
    }
}

pub(super) fn log_transition(limit: &mut LogLimit, transition: &Transition) {
    let tracked = &*transition.tracked;
    let event = &tracked.shown;
    let is_other = tracked.scope == EventScope::Other;
    let has_left = is_other && transition.was_scope() != EventScope::Other;
    if !limit.admits((!is_other || has_left).then_some(event)) {
        return;
    }
    let (outcome, interruption) = match &transition.kind {
        TransitionKind::Ended(outcome) => (Some(outcome.as_str()), tracked.longest_interruption),
        TransitionKind::Interrupted(interruption) => (None, Some(interruption.length)),
        _ => (None, None),
    };
    let rescheduled_from = match &transition.kind {
        TransitionKind::Rescheduled(rescheduling) => rescheduling.from.map(Timestamp::rfc3339),
        _ => None,
    };
    macro_rules! line {
        ($level:ident $(, $id:ident)?) => {
            event_line!(
                $level, [$($id)?], "scheduled event", tracked,
                transition = words_of(transition.kind.event_name()),
                scope = tracked.scope.as_str(),
                first_seen = tracked.first_seen_at.rfc3339(),
                started = tracked.started_at.map(Timestamp::rfc3339),
                rescheduled_from = rescheduled_from,
                outcome = outcome,
                observed_interruption_seconds = interruption.map(|length| length.as_secs_f64()),
                moved_to = tracked.moved_to(),
                trace_id = format!("{:032x}", u128::from_be_bytes(event.id.trace_id())),
            )
        };
    }
    match &transition.kind {
        _ if has_left => line!(info, LEFT_VM),
        TransitionKind::Announced if event.is_advisory() && !is_other => line!(info, ADVISORY),
        _ if is_other || event.is_advisory() => line!(info),
        TransitionKind::Announced
        | TransitionKind::Returned { .. }
        | TransitionKind::Amended {
            was_scope: EventScope::Other,
        } => line!(warn, ANNOUNCED),
        TransitionKind::Rescheduled(_) => line!(warn, RESCHEDULED),
        TransitionKind::StatusChanged(_) | TransitionKind::Amended { .. } => line!(warn, CHANGED),
        TransitionKind::Started => line!(warn, STARTED),
        TransitionKind::Interrupted(_) => line!(warn, INTERRUPTED),
        TransitionKind::Approved | TransitionKind::ApprovedElsewhere => line!(warn, APPROVED),
        TransitionKind::Ended(_) => line!(warn, ENDED),
    }
}
