//! One alert at one Alertmanager: what was sent, and what is due.

use std::{sync::Arc, time::Duration};

use super::super::{alert::Match, timing::PushTiming};
use crate::{
    event::EventScope,
    lifecycle::TrackedEvent,
    time::{Moment, Timestamp},
};

/// What was not accepted by then, after the end of an event, is not sent any more.
pub(super) const RESOLVED_RETENTION: Duration = Duration::from_mins(6);

#[derive(Debug)]
pub(super) struct KnownAlert {
    /// Identifies it within the queue.
    pub(super) key: u64,
    /// The event, as it was when the rule matched last.
    pub(super) tracked: Arc<TrackedEvent>,
    pub(super) matched: Match,
    /// What Alertmanager accepted last, and when.
    pub(super) accepted: Option<(PushedState, Duration)>,
    /// It was in a batch.
    pub(super) is_tried: bool,
}

/// Each is sent when it begins, and only [`PushedState::Firing`] is sent again. By the wall clock, as `endsAt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PushedState {
    Firing,
    /// With the text of the end. For Alertmanager the alert still fires: of two times of the end in the future it takes
    /// the later one, which is that of the last push before the end.
    Ended,
    /// The same message when its `endsAt` has passed.
    Resolved,
}

/// When an alert is to be sent.
pub(super) enum Due {
    News,
    Again,
    At(Duration),
}

impl KnownAlert {
    pub(super) fn new(key: u64, tracked: &Arc<TrackedEvent>, matched: Match) -> Self {
        Self {
            key,
            tracked: Arc::clone(tracked),
            matched,
            accepted: None,
            is_tried: false,
        }
    }

    pub(super) fn has_labels_of(&self, matched: Match, tracked: &TrackedEvent) -> bool {
        self.matched.has_labels_of(&self.tracked, matched, tracked)
    }

    /// It is not sent any more.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        let resolved_at = self.matched.resolved_at;
        resolved_at.is_some_and(|at| now.saturating_since(at) >= RESOLVED_RETENTION)
    }

    pub(super) fn state(&self, timing: &PushTiming, now: Timestamp) -> PushedState {
        let Some(resolved_at) = self.matched.resolved_at else {
            return PushedState::Firing;
        };
        // The VMs that it still names send the alert.
        let names_others = self
            .tracked
            .event
            .resources
            .as_ref()
            .is_some_and(|names| !names.is_empty());
        let is_of_others =
            self.tracked.scope == EventScope::Other && self.tracked.is_pending() && names_others;
        if is_of_others || now.saturating_since(resolved_at) < timing.resolve_after {
            PushedState::Ended
        } else {
            PushedState::Resolved
        }
    }

    /// `is_blind`: its event may have ended, and if it names another VM, that one may have resolved the alert.
    pub(super) fn due(&self, timing: &PushTiming, is_blind: bool, now: Moment) -> Due {
        let state = self.state(timing, now.wall);
        let accepted = self.accepted.filter(|(accepted, _)| *accepted == state);
        let Some((_, accepted_at)) = accepted else {
            return Due::News;
        };
        if state != PushedState::Firing || is_blind && !self.tracked.names_only_this_vm() {
            return Due::At(Duration::MAX);
        }
        let due_at = accepted_at.saturating_add(timing.resend_interval);
        if due_at > now.monotonic {
            Due::At(due_at)
        } else {
            Due::Again
        }
    }
}
