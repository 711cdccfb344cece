//! The policy that decides whether to approve an event.
//!
//! An approval lets Azure start the event before its `NotBefore`, on **every** VM that it names. It cannot be revoked.
//! So nothing is approved without a flag, no Preempt or Terminate, and no event with unknown resources, source, type or
//! duration, or about which documents contradict each other. The name of this VM must be certain.
//!
//! The request, and the 9 seconds of Microsoft's sample:
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events#start-an-event>.

use std::time::Duration;

use crate::{
    azure::event::{Event, EventScope, EventType, Impact, Source, Status, VmNames, resource_name},
    base::{backoff::exponential, time::Moment},
    core::{
        approval::{ApprovalDecision, ApprovalReason, ApprovalStep, SkipReason},
        lifecycle::{Phase, TrackedEvent},
    },
};

pub(crate) const DELAY: Duration = Duration::from_mins(1);
/// Unless `--imds.timeout` is shorter. Polls, and the end of the process, wait for the answer.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Failed attempts after which an event is no longer approved. The delays between them are about 9 minutes together.
const MAX_ATTEMPTS: u32 = 40;
/// The delay after the first failed attempt, and the longest, also of a `Retry-After`.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];

/// The flags `--approve.*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalPolicy {
    pub user_events: bool,
    /// Also approve events of source User that name only other VMs.
    pub for_group: bool,
    /// Approve a Freeze that is announced to be shorter.
    pub freeze_below: Option<Duration>,
    /// Time from the first document with the event until a VM that is not first in `Resources`, or not among them,
    /// approves it.
    pub delay: Duration,
    /// Time from the decision to the request, in which the event counts as due and a load balancer drains this VM.
    pub drain: Duration,
    pub dry_run: bool,
}

impl Default for ApprovalPolicy {
    fn default() -> Self {
        Self {
            user_events: false,
            for_group: false,
            freeze_below: None,
            delay: DELAY,
            drain: Duration::ZERO,
            dry_run: false,
        }
    }
}

impl ApprovalPolicy {
    pub(crate) fn is_on(&self) -> bool {
        self.user_events || self.freeze_below.is_some()
    }

    /// Whether the event counts as due before its approval is sent. An event of other VMs does not affect this one.
    pub(crate) fn drains(&self, reason: ApprovalReason) -> bool {
        !self.drain.is_zero() && !self.dry_run && reason != ApprovalReason::GroupEvent
    }

    /// Whether an event that does not name this VM is approved: its user waits, and the VMs that it names may hang.
    fn covers_other_vms(&self, event: &Event) -> bool {
        let first = event.resources.iter().flatten().next();
        self.user_events
            && self.for_group
            && event.source == Some(Source::User)
            && first.is_some_and(|name| !resource_name(name).is_empty())
    }
}

/// What is done about the approval of an event. `vm_name` is the name of this VM, or why it is not known for certain.
pub fn verdict(
    tracked: &TrackedEvent,
    policy: &ApprovalPolicy,
    vm_name: Result<&str, SkipReason>,
    now: Moment,
) -> ApprovalDecision {
    let (event, steps) = (tracked.reported(), &tracked.approval);
    if tracked.phase() == Phase::Ended {
        return ApprovalDecision::Withheld(SkipReason::Ended);
    }
    if tracked.shown.is_advisory() || event.is_advisory() {
        return ApprovalDecision::Withheld(SkipReason::Advisory);
    }
    if let Some(at) = steps.at(&ApprovalStep::Accepted) {
        return ApprovalDecision::Approved { at };
    }
    if let Some(at) = steps.at(&ApprovalStep::Elsewhere) {
        return ApprovalDecision::ApprovedElsewhere { at };
    }
    // Once started, it is never approved, even if a document has it as Scheduled again.
    if tracked.started_at.is_some() || event.status != Status::Scheduled {
        return ApprovalDecision::Withheld(SkipReason::NotScheduled);
    }
    if !policy.is_on() {
        let is_due = tracked.shown.not_before.is_none();
        let why = if is_due {
            SkipReason::OffAndDue
        } else {
            SkipReason::Off
        };
        return ApprovalDecision::Withheld(why);
    }
    if tracked.is_contradicted || tracked.has_changed_kind() {
        return ApprovalDecision::Withheld(SkipReason::Contradictory);
    }
    // An approval has no effect without a future NotBefore.
    let reason = reason(event, policy, vm_name).and_then(|reason| match event.not_before {
        None => Err(SkipReason::NotBeforeUnknown),
        Some(not_before) if not_before <= now.wall => Err(SkipReason::NotBeforePassed),
        Some(_) => Ok(reason),
    });
    match reason {
        Ok(reason) => attempt(tracked, reason, policy, vm_name.ok(), now),
        Err(why) => ApprovalDecision::Withheld(why),
    }
}

/// The first VM in `Resources` approves the event at once, the others after the delay; each once it has drained, and
/// again a while after it failed.
fn attempt(
    tracked: &TrackedEvent,
    reason: ApprovalReason,
    policy: &ApprovalPolicy,
    vm_name: Option<&str>,
    now: Moment,
) -> ApprovalDecision {
    let (steps, now_at) = (&tracked.approval, tracked.time(now));
    let first = tracked
        .reported()
        .resources
        .as_deref()
        .and_then(|all| all.first());
    let is_first = first.is_some_and(|first| VmNames::from(vm_name).contain(first));
    let delay_until = tracked.first_seen_at.after(policy.delay);
    if !is_first && now_at < delay_until {
        let leader = first.map(AsRef::as_ref);
        return ApprovalDecision::Waiting {
            reason,
            leader: resource_name(leader.unwrap_or_default()).into(),
            until: delay_until,
        };
    }
    if steps.at(&ApprovalStep::Lost).is_some() {
        return ApprovalDecision::Withheld(SkipReason::ResultUnknown);
    }
    if let Some(at) = steps.sent_at().filter(|_| steps.is_answer_outstanding()) {
        return ApprovalDecision::Sent { reason, at };
    }
    let intended_at = steps.intended_at().unwrap_or(now_at);
    let due_at = if is_first {
        intended_at
    } else {
        intended_at.max(delay_until)
    };
    let drain_until = due_at.after(policy.drain);
    if policy.drains(reason) && now_at < drain_until {
        return ApprovalDecision::Draining {
            reason,
            until: drain_until,
        };
    }
    if let Some(at) = steps.at(&ApprovalStep::DryRun).filter(|_| policy.dry_run) {
        return ApprovalDecision::DryRun { reason, at };
    }
    let (attempts, last) = steps.failures();
    if attempts >= MAX_ATTEMPTS {
        return ApprovalDecision::Withheld(SkipReason::GaveUp);
    }
    let last = last.map(|(last, at)| (last, at.after(retry_delay(last.retry_after, attempts))));
    match last.filter(|(_, retry_at)| now_at < *retry_at) {
        Some((last, retry_at)) => ApprovalDecision::Failed {
            reason,
            attempts,
            error: last.error.clone(),
            may_be_accepted: steps.sent_at().is_some(),
            retry_at,
        },
        None => ApprovalDecision::Due(reason),
    }
}

/// The flag that allows the approval, by any VM.
fn reason(
    event: &Event,
    policy: &ApprovalPolicy,
    vm_name: Result<&str, SkipReason>,
) -> Result<ApprovalReason, SkipReason> {
    let user_event = match event.scope(Some(vm_name?)) {
        EventScope::Own => ApprovalReason::UserEvent,
        EventScope::Other if policy.covers_other_vms(event) => ApprovalReason::GroupEvent,
        EventScope::Other => return Err(SkipReason::OtherVm),
        EventScope::Unknown => return Err(SkipReason::ResourcesUnknown),
    };
    match event.event_type.spec().impact {
        Impact::Pause | Impact::Restart => {}
        Impact::Removal => return Err(SkipReason::Deletion),
        Impact::None => return Err(SkipReason::Advisory),
        Impact::Unknown => return Err(SkipReason::TypeUnknown),
    }
    match event.source {
        Some(Source::User) if policy.user_events => return Ok(user_event),
        Some(Source::User | Source::Platform) => {}
        Some(Source::Other(_)) => return Err(SkipReason::SourceUnknown),
        None => return Err(SkipReason::SourceMissing),
    }
    let (EventType::Freeze, Some(below)) = (&event.event_type, policy.freeze_below) else {
        return Err(SkipReason::NotAskedFor);
    };
    match event.duration_seconds.map(Duration::from_secs) {
        Some(duration) if duration < below => Ok(ApprovalReason::ShortFreeze),
        Some(_) => Err(SkipReason::NotAskedFor),
        None => Err(SkipReason::DurationUnknown),
    }
}

/// Without jitter: each VM has an IMDS of its own.
fn retry_delay(retry_after: Option<Duration>, consecutive_failures: u32) -> Duration {
    let [first, max] = RETRY_DELAYS;
    let delay = exponential(first, max, consecutive_failures);
    delay.max(retry_after.unwrap_or_default()).min(max)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::azure::document;

    #[test]
    fn missing_source_and_unknown_source_have_different_messages_and_one_identifier() {
        let policy = ApprovalPolicy {
            user_events: true,
            ..ApprovalPolicy::default()
        };
        for (source, expected) in [
            (json!(null), "its source was not given"),
            (json!("Partner"), "its source is unknown"),
        ] {
            let body = json!({"DocumentIncarnation": 1, "Events": [{
                "EventId": "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265", "EventStatus": "Scheduled",
                "EventType": "Reboot", "Resources": ["web_0"], "EventSource": source,
            }]});
            let (document, _) = document::parse(body.to_string().as_bytes()).unwrap();
            let why = reason(&document.events[0], &policy, Ok("web_0")).unwrap_err();
            assert_eq!(why.as_str(), "source_unknown");
            let message = ApprovalDecision::Withheld(why).message();
            assert_eq!(message, format!("Not approved by this VM: {expected}"));
        }
    }

    #[test]
    fn all_attempts_take_about_9_minutes() {
        let delays = (1..MAX_ATTEMPTS).map(|failures| retry_delay(None, failures));
        let minutes = delays.sum::<Duration>().as_secs_f64() / 60.0;
        assert!((8.0..10.0).contains(&minutes), "{minutes}");
    }
}
