//! One alert at one Alertmanager: what was sent, and what is due.

use std::{sync::Arc, time::Duration};

use super::super::{
    alert::Match,
    end::{End, Listed},
    timing::{PushTiming, Sight},
};
use crate::{lifecycle::TrackedEvent, time::Moment};

/// A resolved alert is sent for this long, for an Alertmanager that was unreachable. An end is confirmed within this
/// time, or left to those who still send the alert.
pub(super) const RESOLVED_RETENTION: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct KnownAlert {
    /// Identifies it within the queue.
    pub(super) key: u64,
    /// The event, as it was when the rule matched last.
    pub(super) tracked: Arc<TrackedEvent>,
    pub(super) matched: Match,
    pub(super) accepted: Option<Accepted>,
    /// `None` while it fires.
    pub(super) end: Option<End>,
    /// When it was last read while it fired.
    pub(super) read_at: Option<Duration>,
    /// When somebody else may have asserted it last.
    pub(super) asserted_elsewhere_at: Option<Duration>,
    /// An alert of its event fired then, and this one was not sent since.
    pub(super) is_confirmed: bool,
}

/// What is to be done with an alert.
pub(super) enum Due {
    Send {
        is_news: bool,
    },
    /// It is sent again after it was read.
    ReadFirst,
    Read,
    At(Duration),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Accepted {
    pub(super) is_resolved: bool,
    pub(super) at: Duration,
}

impl KnownAlert {
    pub(super) fn new(
        key: u64,
        tracked: &Arc<TrackedEvent>,
        matched: Match,
        now: Duration,
    ) -> Self {
        let mut alert = Self {
            key,
            tracked: Arc::clone(tracked),
            matched,
            accepted: None,
            end: None,
            read_at: None,
            asserted_elsewhere_at: None,
            is_confirmed: false,
        };
        alert.update(tracked, matched, now);
        alert
    }

    pub(super) fn update(&mut self, tracked: &Arc<TrackedEvent>, matched: Match, now: Duration) {
        self.tracked = Arc::clone(tracked);
        self.matched = matched;
        if matched.resolved_at.is_none() {
            self.end = None;
        } else if self.end.is_none() {
            self.end = Some(End::begin(now));
        }
    }

    /// It does not match any more.
    pub(super) fn replace(&mut self, now: Moment) {
        self.matched.resolved_at.get_or_insert(now.wall);
        self.end.get_or_insert_with(|| End::begin(now.monotonic));
    }

    /// It was read.
    pub(super) fn record_read(
        &mut self,
        listed: Listed<'_>,
        has_generator: bool,
        interval: Duration,
        now: Duration,
    ) {
        if has_generator {
            self.asserted_elsewhere_at = Some(now);
        }
        let asserted_at = self.asserted_elsewhere_at;
        let is_asserted_elsewhere = !self.tracked.names_only_this_vm()
            || asserted_at.is_some_and(|at| now.saturating_sub(at) < interval);
        match &mut self.end {
            Some(end) => end.read(listed, is_asserted_elsewhere, interval, now),
            None => self.read_at = Some(now),
        }
    }

    pub(super) fn has_labels_of(&self, matched: Match, tracked: &TrackedEvent) -> bool {
        self.matched.has_labels_of(&self.tracked, matched, tracked)
    }

    /// It is not sent any more.
    pub(super) fn is_expired(&self, now: Duration) -> bool {
        let end = self.end.as_ref();
        end.is_some_and(|end| now.saturating_sub(end.since()) >= RESOLVED_RETENTION)
    }

    pub(super) fn due(&self, timing: &PushTiming, sight: Sight, now: Duration) -> Due {
        let accepted_at = self.accepted.map(|accepted| accepted.at);
        let is_news = self
            .accepted
            .is_none_or(|accepted| accepted.is_resolved != self.end.is_some());
        let interval = match (&self.end, sight) {
            (Some(End::Unconfirmed { read_at, .. }), _) if *read_at <= now => return Due::Read,
            (Some(End::Unconfirmed { read_at, .. }), _) => return Due::At(*read_at),
            (Some(End::Confirmed { since }), _) => {
                timing.resolved_interval(now.saturating_sub(*since))
            }
            (None, Sight::Awaited) => return Due::At(Duration::MAX),
            (None, Sight::Blind) if self.is_confirmed => return Due::Send { is_news },
            (None, Sight::Blind) => {
                let since = self.read_at.max(accepted_at);
                let interval = timing.blind_resend_interval;
                let read_at = since.map_or(Duration::ZERO, |at| at.saturating_add(interval));
                return if read_at <= now {
                    Due::Read
                } else {
                    Due::At(read_at)
                };
            }
            (None, Sight::Clear) => timing.resend_interval,
        };
        let due_at = accepted_at.map_or(Duration::ZERO, |at| at.saturating_add(interval));
        if is_news {
            Due::Send { is_news }
        } else if due_at > now {
            Due::At(due_at)
        } else if self.end.is_none()
            && self.tracked.names_only_this_vm()
            && self.read_at.is_none_or(|at| at < due_at)
        {
            Due::ReadFirst
        } else {
            Due::Send { is_news }
        }
    }
}
