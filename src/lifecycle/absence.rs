//! A pending event that a document lacks, although it may not have ended.

use std::time::Duration;

use crate::time::Moment;

/// A pending event that the last document lacked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Absence {
    /// By the monotonic clock: the first document without it.
    pub(super) since: Duration,
    pub(super) hold: Hold,
}

/// How long a missing event stays pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Until a document says more: an unreadable entry of this one mentions its id.
    Mentioned,
    /// Until the identity of this VM is known: the event may be that of another VM.
    Owner,
    /// Until this time of the monotonic clock.
    Until(Duration),
}

impl Absence {
    /// An unreadable entry without an id may be any event, but only for this long.
    pub(super) const MAX_UNIDENTIFIED: Duration = Duration::from_mins(1);

    pub(super) fn is_over(self, now: Moment) -> bool {
        matches!(self.hold, Hold::Until(end) if end <= now.monotonic)
    }
}

/// The minutes in which an event may be missing from a document because it has not appeared yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WarmUpPhase {
    pub(crate) since: Moment,
    pub(crate) until: Moment,
}
