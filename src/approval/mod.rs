//! Whether to approve an event: a pure policy.
//!
//! To approve an event is to let Azure start it before its `NotBefore`, on **every** VM that it names; it cannot be taken
//! back. So all is off until a flag asks for it, and what is not known for certain is never approved: whom an event
//! names, who wants it, what it does, how long it lasts, and who we are.
//!
//! What Microsoft says about it, and the 9 seconds of its sample:
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#start-an-event>.
//!
//! What this room promises: the same arguments give the same decision, and none of them makes it approve the end of a VM.
//! It must never send anything.

pub mod by_hand;

use std::time::Duration;

use crate::{
    event::{Event, EventScope, EventType, Source, Status, resource_name, scope_of},
    lifecycle::{Phase, TrackedEvent},
    snapshot::{ApprovalReason, SkipReason},
    time::{Moment, Timestamp},
};

/// How long the VMs that are not first in `Resources` leave it to the first, unless told otherwise.
pub const DELAY: Duration = Duration::from_mins(1);

/// What may be approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalPolicy {
    /// Events that somebody with rights on the VM ordered.
    pub user_events: bool,
    /// Freezes that are announced to be shorter.
    pub freeze_below: Option<Duration>,
    /// How long after first sight the VMs that are not first in `Resources` approve.
    pub delay: Duration,
    /// Decide, and send nothing.
    pub dry_run: bool,
}

impl Default for ApprovalPolicy {
    /// Nothing is approved.
    fn default() -> Self {
        Self {
            user_events: false,
            freeze_below: None,
            delay: DELAY,
            dry_run: false,
        }
    }
}

impl ApprovalPolicy {
    /// Whether anything may ever be approved.
    pub fn is_on(&self) -> bool {
        self.user_events || self.freeze_below.is_some()
    }

    /// What will be approved, as one line.
    pub fn in_words(&self) -> String {
        let orders = self
            .user_events
            .then(|| "restarts and redeploys that somebody ordered".to_owned());
        let freezes = self
            .freeze_below
            .map(|below| format!("freezes shorter than {below:?}"));
        let what: Vec<_> = orders.into_iter().chain(freezes).collect();
        if what.is_empty() {
            return "off: this exporter only reads".to_owned();
        }
        let delay = self.delay;
        let dry = if self.dry_run { "dry run of " } else { "" };
        format!(
            "{dry}{}, of this VM, at once where it is the first that they name, else after {delay:?}",
            what.join(" and ")
        )
    }
}

/// What is to be done about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// To approve it now.
    Approve(ApprovalReason),
    /// To leave it to the first VM that it names until then.
    Wait {
        /// Why it may be approved.
        reason: ApprovalReason,
        /// The first VM that it names.
        leader: Box<str>,
        /// When it is this VM's turn.
        until: Timestamp,
    },
    /// It was approved by this exporter: once is enough.
    Approved(Timestamp),
    /// Not to approve it.
    Withhold(SkipReason),
}

/// What is to be done about an event as it is known now. `own_name` is given only where it is known for certain.
pub fn decide(
    tracked: &TrackedEvent,
    settings: &ApprovalPolicy,
    vm_name: Option<&str>,
    now: Moment,
) -> Decision {
    let event = &tracked.event;
    if tracked.phase() == Phase::Ended {
        return Decision::Withhold(SkipReason::Ended);
    }
    if let Some(at) = tracked.approved_at {
        return Decision::Approved(at);
    }
    if tracked.phase() != Phase::Scheduled || event.status != Status::Scheduled {
        return Decision::Withhold(SkipReason::NotScheduled);
    }
    match reason(event, settings, vm_name).and_then(|reason| {
        due(event, now.wall)?;
        Ok(reason)
    }) {
        Ok(reason) => turn(tracked, reason, settings.delay, vm_name, now.wall),
        Err(why) => Decision::Withhold(why),
    }
}

/// Why it may be approved at all, whoever does it.
fn reason(
    event: &Event,
    settings: &ApprovalPolicy,
    vm_name: Option<&str>,
) -> Result<ApprovalReason, SkipReason> {
    if !settings.is_on() {
        return Err(SkipReason::Off);
    }
    if vm_name.is_none() {
        return Err(SkipReason::IdentityUnknown);
    }
    match event.scope(vm_name) {
        EventScope::Own => {}
        EventScope::Other => return Err(SkipReason::OtherVm),
        EventScope::Unknown => return Err(SkipReason::ResourcesUnknown),
    }
    match event.event_type {
        EventType::Freeze | EventType::Reboot | EventType::Redeploy => {}
        EventType::Preempt | EventType::Terminate => return Err(SkipReason::Deletion),
        EventType::Other(_) => return Err(SkipReason::TypeUnknown),
    }
    match event.source {
        Some(Source::User) if settings.user_events => return Ok(ApprovalReason::UserEvent),
        Some(Source::User | Source::Platform) => {}
        Some(Source::Other(_)) | None => return Err(SkipReason::SourceUnknown),
    }
    let (EventType::Freeze, Some(below)) = (&event.event_type, settings.freeze_below) else {
        return Err(SkipReason::NotAskedFor);
    };
    match event.duration_seconds.map(Duration::from_secs) {
        Some(duration) if duration < below => Ok(ApprovalReason::ShortFreeze),
        Some(_) => Err(SkipReason::NotAskedFor),
        None => Err(SkipReason::DurationUnknown),
    }
}

/// Whether an approval can still make a difference.
fn due(event: &Event, now: Timestamp) -> Result<(), SkipReason> {
    match event.not_before {
        None => Err(SkipReason::NotBeforeUnknown),
        Some(not_before) if not_before <= now => Err(SkipReason::NotBeforePassed),
        Some(_) => Ok(()),
    }
}

/// The first VM of `Resources` approves at once, the others are its backup.
fn turn(
    tracked: &TrackedEvent,
    reason: ApprovalReason,
    delay: Duration,
    vm_name: Option<&str>,
    now: Timestamp,
) -> Decision {
    let first = tracked
        .event
        .resources
        .as_deref()
        .and_then(|all| all.get(..1));
    let until = tracked.first_seen_at.after(delay);
    if scope_of(first, vm_name) == EventScope::Own || until <= now {
        return Decision::Approve(reason);
    }
    let leader = first.and_then(<[_]>::first).map(AsRef::as_ref);
    Decision::Wait {
        reason,
        leader: resource_name(leader.unwrap_or_default()).into(),
        until,
    }
}
