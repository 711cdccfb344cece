//! When an event starts.

use std::time::Duration;

use crate::{
    base::time::Timestamp,
    core::lifecycle::{Phase, TrackedEvent},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// An advisory, or an ended event.
    Never,
    Started(Timestamp),
    /// It may start at any moment.
    Approved,
    /// An approval was sent, and its result is not known.
    MayBeApproved,
    /// This exporter, or the first VM in `Resources`, is about to approve it.
    AboutToBeApproved,
    /// In the past if it is overdue.
    NotBefore(Timestamp),
    /// Azure gave no readable `NotBefore`: it may start at any moment.
    NotAnnounced,
}

impl Start {
    pub(crate) fn of(tracked: &TrackedEvent, now: Timestamp) -> Self {
        match (tracked.phase(), tracked.shown.not_before) {
            (Phase::Advisory | Phase::Ended, _) => Self::Never,
            (Phase::Started, _) => {
                Self::Started(tracked.running_since().unwrap_or(tracked.first_seen_at))
            }
            (Phase::Scheduled, _) if tracked.approval.is_approved() => Self::Approved,
            (Phase::Scheduled, _) if tracked.approval.may_be_approved() => Self::MayBeApproved,
            (Phase::Scheduled, _) if tracked.is_before_its_approval(now) => Self::AboutToBeApproved,
            (Phase::Scheduled, Some(not_before)) => Self::NotBefore(not_before),
            (Phase::Scheduled, None) => Self::NotAnnounced,
        }
    }

    /// Seconds from `now` to the start: negative infinity if it has started or may start at any moment, `None` if it
    /// never starts.
    pub(crate) fn seconds_from(self, now: Timestamp) -> Option<f64> {
        match self {
            Self::Started(_)
            | Self::Approved
            | Self::MayBeApproved
            | Self::AboutToBeApproved
            | Self::NotAnnounced => Some(f64::NEG_INFINITY),
            Self::NotBefore(not_before) => Some(not_before.seconds_from(now)),
            Self::Never => None,
        }
    }

    pub(crate) fn is_within(self, lead_time: Duration, now: Timestamp) -> bool {
        self.seconds_from(now)
            .is_some_and(|seconds| seconds <= lead_time.as_secs_f64())
    }
}
