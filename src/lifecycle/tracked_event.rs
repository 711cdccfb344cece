//! What is kept of one event.

use std::time::Duration;

use crate::{
    event::{Event, EventScope, EventType, Status},
    time::Timestamp,
};

/// Changes of `NotBefore` and interruptions that are kept per event.
const MAX_KEPT: usize = 32;

/// One event from first sight to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackedEvent {
    /// The event as last seen, but for `not_before`, which stays when Azure blanks it at the start.
    pub event: Event,
    /// Whether it names this VM.
    pub scope: EventScope,
    /// When a document had it first.
    pub first_seen_at: Timestamp,
    /// It was in the first document for a while, or in the first of all: it may have been announced, and started, before.
    pub seen_late: bool,
    /// When a document had it as Started first.
    pub started_at: Option<Timestamp>,
    /// When and how it ended.
    pub end: Option<End>,
    /// How often it was seen to end: more than once where it came back.
    pub times_ended: u32,
    /// How often of these it had not been seen started.
    pub times_ended_unstarted: u32,
    /// When an approval was last about to be sent: with neither `approved_at` nor `refused_at` after it, the process ended
    /// before the answer.
    pub approval_sent_at: Option<Timestamp>,
    /// When IMDS accepted the approval of this exporter.
    pub approved_at: Option<Timestamp>,
    /// When an approval of it failed last, as long as none was taken.
    pub refused_at: Option<Timestamp>,
    /// Each change of `NotBefore`.
    pub reschedulings: Vec<Rescheduling>,
    /// What this VM felt of it.
    pub interruptions: Vec<Interruption>,
    /// This VM was booted anew while the event was going on.
    pub rebooted: bool,
    /// The last sign of life before that boot, until the first document after it.
    pub down_since: Option<Timestamp>,
}

/// How far an event is, as far as it was seen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Announced.
    Scheduled,
    /// Going on.
    Started,
    /// Over.
    Ended,
}

impl Phase {
    /// One word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Started => "started",
            Self::Ended => "ended",
        }
    }
}

/// The end of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// When it was found to be gone.
    pub at: Timestamp,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It was taken back: gone before its time between two polls of ours.
    Cancelled,
    /// It ran: it was seen started, or the evidence says so.
    Completed,
    /// The evidence allows neither.
    Unknown,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cancelled, Self::Completed, Self::Unknown];

    /// The value of the label `outcome`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }
}

/// A new `NotBefore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rescheduling {
    /// When it was seen.
    pub at: Timestamp,
    /// What it was before, where it was given.
    pub from: Option<Timestamp>,
    /// What it is now.
    pub to: Timestamp,
}

/// A time in which this VM stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interruption {
    /// When it was over.
    pub until: Timestamp,
    /// How long it was.
    pub length: Duration,
}

impl Interruption {
    /// What is shorter than this is the noise of a busy machine.
    pub const MIN_LENGTH: Duration = Duration::from_secs(1);
}

impl TrackedEvent {
    /// An event of which nothing has happened yet but that it was seen.
    pub fn begin(event: Event, scope: EventScope, seen_late: bool, now: Timestamp) -> Self {
        Self {
            event,
            scope,
            first_seen_at: now,
            seen_late,
            started_at: None,
            end: None,
            times_ended: 0,
            times_ended_unstarted: 0,
            approval_sent_at: None,
            approved_at: None,
            refused_at: None,
            reschedulings: Vec::new(),
            interruptions: Vec::new(),
            rebooted: false,
            down_since: None,
        }
    }

    /// Seconds until `NotBefore`: below zero when it is overdue, zero once it has started, none without a NotBefore or after
    /// the end.
    pub fn countdown_seconds(&self, now: Timestamp) -> Option<f64> {
        let not_before = self.event.not_before?;
        match self.phase() {
            Phase::Scheduled => Some(not_before.seconds_from(now)),
            Phase::Started => Some(0.0),
            Phase::Ended => None,
        }
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        match (self.end, self.started_at) {
            (Some(_), _) => Phase::Ended,
            (None, Some(_)) => Phase::Started,
            (None, None) => Phase::Scheduled,
        }
    }

    /// Whether it is still to be reckoned with.
    pub fn is_pending(&self) -> bool {
        self.end.is_none()
    }

    /// From first sight to the start; for an event that was never seen started, but ran, to its `NotBefore`, or to its
    /// end where that came before, as it does for an event that was approved. `None` while that is not known, for an
    /// event that was cancelled, and for one that had started before anybody looked.
    pub fn notice(&self) -> Option<Duration> {
        if self.is_start_unseen() {
            return None;
        }
        let ran_before = self.end.filter(|end| end.outcome == Outcome::Completed);
        let inferred = || Some(self.event.not_before?.min(ran_before?.at));
        let started_at = self.started_at.or_else(inferred)?;
        Some(started_at.saturating_since(self.first_seen_at))
    }

    /// From the start to the end, where both were seen.
    pub fn impact(&self) -> Option<Duration> {
        if self.is_start_unseen() {
            return None;
        }
        Some(self.end?.at.saturating_since(self.started_at?))
    }

    /// It had started before anybody looked.
    fn is_start_unseen(&self) -> bool {
        self.seen_late && self.started_at == Some(self.first_seen_at)
    }

    /// Whether it ended just now for the first time since it started.
    pub(crate) fn is_first_impact(&self) -> bool {
        self.times_ended == self.times_ended_unstarted.saturating_add(1)
    }

    /// The longest time in which this VM stood still; what Azure announces is the length of one interruption too.
    pub fn observed_interruption(&self) -> Option<Duration> {
        self.interruptions
            .iter()
            .map(|interruption| interruption.length)
            .max()
    }

    /// A reboot or redeploy ends with a boot of the VM; a freeze does not.
    pub(super) fn ends_with_boot(&self) -> bool {
        matches!(
            self.event.event_type,
            EventType::Reboot | EventType::Redeploy
        )
    }

    pub(super) fn reschedule(&mut self, rescheduling: Rescheduling) {
        self.event.not_before = Some(rescheduling.to);
        push_bounded(&mut self.reschedulings, rescheduling);
    }

    pub(super) fn interrupt(&mut self, interruption: Interruption) {
        push_bounded(&mut self.interruptions, interruption);
    }

    /// What became of it, now that it is gone. `watched`: no poll of ours failed since it was last seen, or not for
    /// long enough to miss its start. An interruption is no evidence: a step of the clock looks the same.
    pub(super) fn outcome(&self, now: Timestamp, watched: bool) -> Outcome {
        let due = self
            .event
            .not_before
            .is_some_and(|not_before| now >= not_before);
        let booted = self.rebooted && self.ends_with_boot() && self.scope == EventScope::Own;
        let is_before_its_time =
            self.event.status == Status::Scheduled && self.event.not_before.is_some() && !due;
        if self.started_at.is_some() || self.approved_at.is_some() || due || booted {
            Outcome::Completed
        } else if watched && is_before_its_time && self.approval_sent_at.is_none() {
            Outcome::Cancelled
        } else {
            Outcome::Unknown
        }
    }
}

/// Keeps the newest ones, and the first, which says what was announced.
fn push_bounded<T>(kept: &mut Vec<T>, newest: T) {
    if kept.len() >= MAX_KEPT {
        kept.remove(1);
    }
    kept.push(newest);
}
