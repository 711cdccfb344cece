//! The record of one event.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    azure::event::{Event, EventKind, EventScope, EventType, Status},
    base::{
        label::label_values,
        time::{Moment, MonotonicTime, Timestamp},
    },
    core::approval::ApprovalSteps,
};

/// An event that is due within an hour is urgent.
pub(crate) const IMMINENT_SECONDS: f64 = 3_600.0;
/// Changes of `NotBefore`, and interruptions, that are kept per event.
const MAX_KEPT: usize = 32;

/// Times count from that of its first document by the monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackedEvent {
    /// The last readable value of each member: `NotBefore` stays when Azure blanks it at the start.
    pub shown: Event,
    /// The event as the last document with it had it, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Box<Event>>,
    /// The last document contradicted itself about the event, so it neither ends nor approves it.
    #[serde(default)]
    pub is_contradicted: bool,
    /// The type that a restart had when it was urgent first: a Reboot that becomes a Redeploy does not page again.
    pub urgent_type: EventType,
    pub scope: EventScope,
    /// The types and sources that earlier documents gave the event, oldest first and without the current ones.
    #[serde(default)]
    pub former_kinds: Vec<EventKind>,
    pub first_seen_at: Timestamp,
    /// The monotonic clock then.
    pub first_seen: MonotonicTime,
    #[serde(default)]
    pub first_sight: FirstSight,
    /// The last document with the event, where it is pending although the last document of all lacks it.
    pub last_listed_at: Option<Moment>,
    /// The first document of all that lacks it, while it is pending nevertheless.
    #[serde(default)]
    pub missing_since: Option<MonotonicTime>,
    /// When a document first had it as Started. The phase says whether it still is.
    pub started_at: Option<Timestamp>,
    pub end: Option<End>,
    /// When it started by the evidence, where no document had it as Started.
    #[serde(default)]
    pub ran_at: Option<Timestamp>,
    /// When a document no longer named this VM, although one before did.
    pub left_at: Option<Timestamp>,
    /// The outcome that the event seemed to have, if it came back after its end.
    pub previous_outcome: Option<Outcome>,
    /// More than one where the event came back after its end.
    #[serde(default)]
    pub times_ended: u32,
    /// When it was first seen, a document changed it, it ended or came back: the last of these.
    pub changed_at: Timestamp,
    /// Documents that had another version of it than the one before.
    #[serde(default)]
    pub times_changed: u32,
    #[serde(default)]
    pub approval: ApprovalSteps,
    /// It was urgent at some time before the last change, and stays so.
    #[serde(default)]
    pub was_imminent: bool,
    #[serde(default)]
    pub reschedulings: Vec<Rescheduling>,
    #[serde(default)]
    pub interruptions: Vec<Interruption>,
    /// The longest of all interruptions. `DurationInSeconds` announces a single one, so the two are comparable.
    #[serde(default)]
    pub longest_interruption: Option<Duration>,
    /// This VM was booted when the event had started or was about to, and no document since then has it as Scheduled.
    #[serde(default)]
    pub rebooted: bool,
    /// The last heartbeat before that boot, until the first document after it.
    pub down_since: Option<MonotonicTime>,
    /// The last one that was read before the event may have moved this VM, and the last one of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_hosts: Option<[Arc<str>; 2]>,
    /// The owner of this VM, until the end of the event; `None` if it is unknown or has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Arc<str>>,
    /// Those before, without the current one: their alerts have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_owners: Vec<Option<Arc<str>>>,
    #[serde(default)]
    pub owner_changed_at: Option<Timestamp>,
}

/// How the first document with an event had it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstSight {
    #[default]
    Waiting,
    /// Started, and no document was read for so long before that nobody knows when.
    StartUnseen,
    /// Started, but a document that announced it may have been missed.
    Started,
    /// Started, and no document can have been missed that announced it.
    StartedUnannounced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The first document without the event.
    pub at: Timestamp,
    pub outcome: Outcome,
}

label_values! {
    /// How an event ended, as far as the evidence shows: the values of the label `outcome`.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Outcome {
        /// It left the document before `NotBefore`, and polls were frequent enough to see a start.
        Cancelled = "cancelled",
        /// It was seen as Started, or the evidence shows that it ran.
        Completed = "completed",
        /// The evidence shows neither.
        Unknown = "unknown",
    }
}

label_values! {
    pub enum Phase {
        /// Advice that never starts.
        Advisory = "advisory",
        Scheduled = "scheduled",
        Started = "started",
        Ended = "ended",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rescheduling {
    pub at: Timestamp,
    pub from: Option<Timestamp>,
    pub to: Timestamp,
}

/// A time in which this VM did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruption {
    pub until: Timestamp,
    pub length: Duration,
}

impl Interruption {
    /// A shorter gap is the scheduling noise of a busy machine.
    pub(crate) const MIN_LENGTH: Duration = Duration::from_secs(1);
}

impl TrackedEvent {
    pub(crate) fn begin(event: Event, scope: EventScope, now: Moment) -> Self {
        Self {
            urgent_type: event.event_type.clone(),
            shown: event,
            reported: None,
            is_contradicted: false,
            scope,
            former_kinds: Vec::new(),
            first_seen_at: now.wall,
            first_seen: now.monotonic,
            first_sight: FirstSight::Waiting,
            last_listed_at: None,
            missing_since: None,
            started_at: None,
            end: None,
            ran_at: None,
            left_at: None,
            previous_outcome: None,
            times_ended: 0,
            changed_at: now.wall,
            times_changed: 0,
            approval: ApprovalSteps::default(),
            was_imminent: false,
            reschedulings: Vec::new(),
            interruptions: Vec::new(),
            longest_interruption: None,
            rebooted: false,
            down_since: None,
            physical_hosts: None,
            owner: None,
            former_owners: Vec::new(),
            owner_changed_at: None,
        }
    }

    /// Lengths between two such times are right even if the wall clock was set meanwhile.
    pub(crate) fn time(&self, at: Moment) -> Timestamp {
        self.first_seen_at.after(at.monotonic - self.first_seen)
    }

    /// The moment of one of its times.
    pub(crate) fn moment(&self, at: Timestamp) -> Moment {
        let after = at.saturating_since(self.first_seen_at);
        Moment {
            wall: at,
            monotonic: self.first_seen + after,
            awake: MonotonicTime::default(),
        }
    }

    /// How long ago one of its times was.
    pub(crate) fn since(&self, at: Timestamp, now: Moment) -> Duration {
        self.time(now).saturating_since(at)
    }

    /// The event as the last document with it had it. Only this decides whether it is approved or has ended.
    pub(crate) fn reported(&self) -> &Event {
        self.reported.as_deref().unwrap_or(&self.shown)
    }

    /// The physical host before the event.
    pub(crate) fn physical_host(&self) -> Option<&str> {
        let [before, _] = self.physical_hosts.as_ref()?;
        Some(before)
    }

    /// The physical host after the end of the event, if it is known to be another one.
    pub(crate) fn moved_to(&self) -> Option<&str> {
        let [before, last] = self.physical_hosts.as_ref()?;
        (self.end.is_some() && before != last).then_some(last)
    }

    pub(super) fn text_bytes(&self) -> usize {
        let reported = self.reported.as_deref().map_or(0, Event::text_bytes);
        self.shown.text_bytes() + reported
    }

    /// Whether documents gave it different types or sources.
    pub(crate) fn has_changed_kind(&self) -> bool {
        let is_other = |was: &EventKind| {
            let sources = was.source.as_ref().zip(self.shown.source.as_ref());
            was.event_type != self.shown.event_type || sources.is_some_and(|(was, is)| was != is)
        };
        let is_advisory = self.shown.is_advisory();
        let mut former = self.former_kinds.iter();
        former.any(|was| was.is_advisory == is_advisory && is_other(was))
    }

    pub(crate) fn names_only_this_vm(&self) -> bool {
        let resources = self.shown.resources.as_deref();
        let is_alone = resources.is_some_and(|names| names.len() == 1);
        self.scope == EventScope::Own && is_alone && !self.shown.has_more_resources
    }

    /// Until `NotBefore`: negative when overdue, zero once started.
    pub(crate) fn countdown_seconds(&self, now: Timestamp) -> Option<f64> {
        let not_before = self.shown.not_before?;
        match self.phase() {
            Phase::Scheduled => Some(not_before.seconds_from(now)),
            Phase::Started => Some(0.0),
            Phase::Advisory | Phase::Ended => None,
        }
    }

    /// An event that was Started and is Scheduled again, which Azure rules out, is Scheduled.
    pub(crate) fn phase(&self) -> Phase {
        match (self.end, self.started_at) {
            (Some(_), _) => Phase::Ended,
            (None, _) if self.shown.is_advisory() => Phase::Advisory,
            (None, Some(_)) if self.shown.status != Status::Scheduled => Phase::Started,
            (None, _) => Phase::Scheduled,
        }
    }

    /// When it started, unless it is Scheduled again.
    pub(crate) fn running_since(&self) -> Option<Timestamp> {
        self.started_at.filter(|_| self.phase() != Phase::Scheduled)
    }

    /// It has started, or may have: its `NotBefore` has passed, it may be approved, or this VM was booted.
    pub(super) fn may_have_started(&self, now: Timestamp) -> bool {
        let is_due = self.shown.deadline().is_some_and(|due| due <= now);
        let booted = self.rebooted && self.shown.event_type.restarts_vm();
        self.started_at.is_some() || is_due || self.approval.may_be_approved() || booted
    }

    pub fn is_pending(&self) -> bool {
        self.end.is_none()
    }

    /// True until the event has ended, except for an advisory: it announces no maintenance.
    pub(crate) fn is_maintenance_pending(&self) -> bool {
        matches!(self.phase(), Phase::Scheduled | Phase::Started)
    }

    /// Whether the event was started, approved, due within the hour, or without a time, at any moment until `at`. What
    /// was urgent stays so: a postponement must not cause a second page when the new time comes.
    pub(crate) fn has_been_imminent(&self, at: Timestamp) -> bool {
        // The clock may have been set back.
        let at = at.max(self.first_seen_at);
        let not_before = self.shown.not_before;
        self.was_imminent
            || self.started_at.is_some()
            || self.approval.is_approved()
            || not_before.is_none_or(|due| due.seconds_from(at) < IMMINENT_SECONDS)
    }

    /// From the first document with the event to its start or, if it ran but was never seen as Started, to the earlier of
    /// `NotBefore` and its end.
    pub(crate) fn notice(&self) -> Option<Duration> {
        if self.is_start_unseen() {
            return None;
        }
        let started_at = self.started_at.or(self.ran_at)?;
        Some(started_at.saturating_since(self.first_seen_at))
    }

    /// The time from start to end, where both were seen.
    pub(crate) fn impact(&self) -> Option<Duration> {
        let started_at = self.started_at.filter(|_| !self.is_start_unseen())?;
        Some(self.end?.at.saturating_since(started_at))
    }

    fn is_start_unseen(&self) -> bool {
        self.first_sight == FirstSight::StartUnseen && self.started_at == Some(self.first_seen_at)
    }

    /// To be called after another version of the event, or another event of its id, has replaced it.
    pub(super) fn record_former_kind(&mut self, was: EventKind) {
        self.former_kinds.retain(|kind| *kind != was);
        push_bounded(&mut self.former_kinds, was);
        let current = self.shown.kind();
        self.former_kinds.retain(|kind| *kind != current);
    }
}

/// Keeps the first, which is the announcement, and the newest.
pub(super) fn push_bounded<T>(kept: &mut Vec<T>, newest: T) {
    if kept.len() >= MAX_KEPT {
        kept.remove(1);
    }
    kept.push(newest);
}
