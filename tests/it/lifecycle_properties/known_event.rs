//! One event as the documents have shown it, and what the contract says about its end.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    lifecycle::Outcome,
    time::{Moment, Timestamp},
};

use super::{Lost, Observed};

/// Of a poll interval of 1 s.
pub(super) const MAX_GAP: Duration = Duration::from_secs(10);
/// Of an event that announces no duration.
const MIN_RUN: Duration = Duration::from_secs(10);
pub(super) const MAX_DOWN_EARLY: Duration = Duration::from_mins(1);
const MAX_UNIDENTIFIED: Duration = Duration::from_mins(1);
const WARM_UP: Duration = Duration::from_mins(5);
pub(super) const DISABLED_AFTER: Duration = Duration::from_hours(24);
const RETENTION: Duration = Duration::from_mins(10);

/// The clock of the test never goes back.
pub(super) fn between(earlier: Duration, later: Duration) -> Duration {
    later.checked_sub(earlier).unwrap()
}

/// What becomes of a missing event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Until this time, if documents go on to lack it.
    Keep(Option<Duration>),
    End,
}

/// One event, with the last readable value of each member. Times without a date are those of the test's clock.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) status: Option<&'static str>,
    pub(super) event_type: &'static str,
    pub(super) not_before: Option<Timestamp>,
    pub(super) duration: Option<i64>,
    pub(super) is_own: Option<bool>,
    /// By the last document with it.
    pub(super) reported_status: Option<&'static str>,
    pub(super) began: Duration,
    pub(super) first_seen_at: Option<Timestamp>,
    pub(super) listed: Duration,
    pub(super) listed_at: Timestamp,
    /// When a document first lacked it, and how long it is kept.
    pub(super) missing: Option<(Duration, Option<Duration>)>,
    /// Before the beginning if negative, in milliseconds.
    pub(super) due_millis: Option<i128>,
    pub(super) started: Option<Duration>,
    pub(super) approved: Option<Duration>,
    pub(super) is_approved_elsewhere: bool,
    /// The approvals that were sent and not refused.
    pub(super) sent: usize,
    /// An interruption was measured since it was listed.
    pub(super) was_interrupted: bool,
    /// A boot that it explains, and no document since then listed it as Scheduled.
    pub(super) has_booted: bool,
    /// The last heartbeat before that boot, until the first document.
    pub(super) down_since: Option<Duration>,
    pub(super) ended: Option<Duration>,
}

impl Known {
    pub(super) fn new(
        observed: Observed,
        before: Option<&Self>,
        elapsed: Duration,
        now: Moment,
    ) -> Self {
        let mut known = Self {
            status: before.and_then(|it| it.status),
            event_type: observed.event_type,
            not_before: None,
            duration: None,
            is_own: before.and_then(|it| it.is_own),
            reported_status: None,
            began: elapsed,
            first_seen_at: None,
            listed: elapsed,
            listed_at: now.wall,
            missing: None,
            due_millis: None,
            started: None,
            approved: None,
            is_approved_elsewhere: false,
            sent: 0,
            was_interrupted: false,
            has_booted: false,
            down_since: None,
            ended: None,
        };
        known.read(observed, elapsed, now);
        known
    }

    /// A document has it.
    pub(super) fn read(&mut self, observed: Observed, elapsed: Duration, now: Moment) {
        self.status = observed.status.or(self.status);
        self.event_type = observed.event_type;
        let not_before = observed.not_before.map(timestamp);
        if not_before.is_some() && not_before != self.not_before {
            self.not_before = not_before;
            self.set_due(elapsed, now);
        }
        self.duration = observed.duration.or(self.duration);
        self.is_own = observed.is_own.or(self.is_own);
        self.reported_status = observed.status;
        if observed.status == Some("Scheduled") {
            self.has_booted = false;
            let about_now = now.wall.after(MAX_GAP);
            if self.is_approved_elsewhere && not_before.is_some_and(|due| due > about_now) {
                self.approved = None;
                self.is_approved_elsewhere = false;
            }
        }
        self.confirm(elapsed, now);
        self.missing = None;
        self.ended = None;
    }

    /// The last document still holds, and has it.
    pub(super) fn confirm(&mut self, elapsed: Duration, now: Moment) {
        (self.listed, self.listed_at) = (elapsed, now.wall);
        self.was_interrupted = false;
    }

    pub(super) fn set_due(&mut self, elapsed: Duration, now: Moment) {
        self.due_millis = self.not_before.map(|due| {
            let millis = |length: Duration| i128::try_from(length.as_millis()).unwrap();
            let left = millis(due.saturating_since(now.wall));
            millis(elapsed) + left - millis(now.wall.saturating_since(due))
        });
    }

    pub(super) fn is_advice(&self) -> bool {
        is_advice(self.status, self.event_type)
    }

    pub(super) fn restarts_vm(&self) -> bool {
        matches!(self.event_type, "Reboot" | "Redeploy")
    }

    pub(super) fn may_be_approved(&self) -> bool {
        self.approved.is_some() || self.sent > 0
    }

    pub(super) fn is_shown(&self, elapsed: Duration) -> bool {
        self.ended
            .is_none_or(|ended| between(ended, elapsed) < RETENTION)
    }

    /// A document lacks it.
    pub(super) fn fate(
        &self,
        document: &Listing,
        warm_up: Option<Duration>,
        elapsed: Duration,
        now: Moment,
    ) -> Fate {
        if document.lost == Lost::Event(document.index) {
            return Fate::Keep(None);
        }
        let until = if document.lost == Lost::Unidentified {
            self.missing.map_or(elapsed, |(since, _)| since) + MAX_UNIDENTIFIED
        } else {
            let is_due = self.not_before.is_some_and(|due| now.wall >= due) && !self.is_advice();
            let may_have_started = self.started.is_some()
                || is_due
                || self.may_be_approved()
                || self.has_booted && self.restarts_vm();
            match warm_up.filter(|began| document.is_empty && elapsed < *began + WARM_UP) {
                Some(began) if !may_have_started && self.listed < began => {
                    let due = self.due_millis.filter(|_| !self.is_advice());
                    let due = due.map(|due| Duration::from_millis(u64::try_from(due).unwrap_or(0)));
                    due.map_or(began + WARM_UP, |due| due.min(began + WARM_UP))
                }
                _ => elapsed,
            }
        };
        if elapsed < until {
            Fate::Keep(Some(until))
        } else {
            Fate::End
        }
    }

    /// `is_watched`: it was in the last document, and no start can have been missed since.
    pub(super) fn outcomes(
        &self,
        is_watched: bool,
        was_paused: Pause,
        elapsed: Duration,
        now: Moment,
    ) -> Vec<Outcome> {
        if self.is_advice() && self.started.is_none() {
            return vec![Outcome::Unknown];
        }
        let ran_on_time = self
            .not_before
            .is_some_and(|due| now.wall >= due && self.listed_at.after(MAX_GAP) >= due);
        let min_run = self.duration.and_then(|it| u64::try_from(it).ok());
        let min_run = min_run.map_or(MIN_RUN, Duration::from_secs);
        let ran_after_approval = self.approved.is_some_and(|approved| {
            let left_next = self.listed <= approved;
            self.was_interrupted || left_next && between(approved, elapsed) >= min_run
        });
        let ran_in_boot = self.has_booted && self.restarts_vm() && self.is_own == Some(true);
        if self.started.is_some() || ran_on_time || ran_after_approval || ran_in_boot {
            return vec![Outcome::Completed];
        }
        let is_early = |due: Timestamp| now.wall < due && self.listed_at < due;
        let is_cancelled = is_watched
            && self.missing.is_none()
            && self.reported_status == Some("Scheduled")
            && self.not_before.is_some_and(is_early)
            && !self.may_be_approved();
        match was_paused {
            Pause::No if is_cancelled => vec![Outcome::Cancelled],
            Pause::BeforeRestart if is_cancelled => vec![Outcome::Cancelled, Outcome::Unknown],
            _ => vec![Outcome::Unknown],
        }
    }
}

pub(super) fn is_advice(status: Option<&str>, event_type: &str) -> bool {
    status == Some("Advisory") || event_type == "SpotRebalanceRecommendation"
}

fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_794_906_000 + seconds).unwrap()
}

/// What a document says about one event that it lacks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listing {
    pub(super) index: usize,
    pub(super) lost: Lost,
    pub(super) is_empty: bool,
}

/// An interruption of this VM since the last successful poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Pause {
    #[default]
    No,
    Measured,
    /// The state does not say what was measured since the last poll.
    BeforeRestart,
}
