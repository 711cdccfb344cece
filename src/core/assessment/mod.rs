//! What an event means for this VM: whether it interrupts it, when it starts, which alerts it has, how much it matters,
//! and in which words. Pure.
//!
//! Every output reads this judgement, and none decides again.

mod alerts;
mod words;

use std::time::Duration;

pub(crate) use self::alerts::{AlertRule, AlertState, EventAlert};
use crate::{
    azure::event::{EventScope, Severity},
    base::time::{Moment, Timestamp},
    core::lifecycle::{ENDED_RETENTION, Phase, PollState, TrackedEvent},
};

/// An event as it concerns this VM at a moment.
#[derive(Debug)]
pub(crate) struct Judgement<'a> {
    pub(crate) tracked: &'a TrackedEvent,
    pub(crate) start: Start,
    /// After the end, those that it had then.
    pub(crate) alerts: Vec<EventAlert<'a>>,
    /// The rules that match it, at its end if that is over.
    rules: Vec<AlertRule>,
    /// When the event ended, or no longer named this VM.
    over_at: Option<Timestamp>,
    now: Moment,
}

pub(crate) fn judge(tracked: &TrackedEvent, now: Moment) -> Judgement<'_> {
    let left_at = tracked.left_at;
    let left_at = left_at.filter(|_| tracked.scope == EventScope::Other);
    let over_at = left_at.or(tracked.end.map(|end| end.at));
    let at = over_at.map_or(now, |at| tracked.moment(at));
    let rules = alerts::rules(&tracked.shown.kind(), tracked, at);
    Judgement {
        tracked,
        start: Start::of(tracked, now.wall),
        alerts: alerts::alerts(tracked, &rules, over_at, now),
        rules,
        over_at,
        now,
    }
}

/// Whether this exporter speaks about the event: it names this VM, may do so, or did until a few minutes ago.
pub(crate) fn concerns_vm(tracked: &TrackedEvent, now: Moment) -> bool {
    let has_just_left = |left_at| tracked.since(left_at, now) < ENDED_RETENTION;
    tracked.scope != EventScope::Other || tracked.left_at.is_some_and(has_just_left)
}

impl Judgement<'_> {
    /// A Freeze of 0 s and advisories do not; other types do whatever their announced duration is.
    pub(crate) fn interrupts_vm(&self) -> bool {
        let event = &self.tracked.shown;
        let is_harmless = event.is_advisory() || event.is_without_interruption();
        self.tracked.scope == EventScope::Own && !is_harmless
    }

    /// Whether it has started, may start at any moment, or may start within this time.
    pub(crate) fn is_due(&self, within: Duration) -> bool {
        let seconds = self.start.seconds_from(self.now.wall);
        seconds.is_some_and(|seconds| seconds <= within.as_secs_f64())
    }

    /// Whether the last document lists the event for this VM. `None` if that is not known: the last poll failed, or the
    /// document cannot prove that the event is over.
    pub(crate) fn is_open(&self, poll: &PollState) -> Option<bool> {
        if self.over_at.is_some() {
            return Some(false);
        }
        let is_known = poll.is_up(self.now) && self.tracked.last_listed_at.is_none();
        is_known.then_some(true)
    }

    /// The alerts that fire, without those for inhibition alone.
    pub(crate) fn firing(&self) -> impl Iterator<Item = AlertRule> {
        let firing = |alert: &&EventAlert<'_>| alert.state == AlertState::Firing;
        let rules = self.alerts.iter().filter(firing).map(|alert| alert.rule);
        rules.filter(|rule| rule.is_notified())
    }

    pub(crate) fn severity(&self) -> Option<Severity> {
        self.firing().map(|rule| rule.severity).max()
    }

    /// The order among open events: 21 to 23 once started, 10 to 13 within the hour before, then 1 divided by the hours.
    pub(crate) fn priority(&self) -> f64 {
        if self.over_at.is_some() {
            return 0.0;
        }
        let severity = match self.severity() {
            Some(Severity::Critical) => 3.0,
            Some(Severity::Warning) => 2.0,
            Some(Severity::Info) | None => 1.0,
        };
        let seconds = self.start.seconds_from(self.now.wall);
        let hours = seconds.unwrap_or(0.0).max(0.0) / 3600.0;
        match self.start {
            Start::Started(_) => 20.0 + severity,
            _ if hours <= 1.0 => 10.0 + severity - 0.9 * hours,
            _ => 1.0 / hours,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// An advisory, or an ended event.
    Never,
    Started(Timestamp),
    Approved,
    /// An approval was sent, and its result is not known.
    MayBeApproved,
    /// This exporter, or the first VM in `Resources`, is about to approve it.
    AboutToBeApproved,
    NotBefore(Timestamp),
    /// Azure gave no readable `NotBefore`: it may start at any moment.
    NotAnnounced,
}

impl Start {
    pub(crate) fn of(tracked: &TrackedEvent, now: Timestamp) -> Self {
        let not_before = tracked.shown.not_before;
        // NotBefore ends that.
        let is_to_be_approved =
            tracked.approval.intended_at().is_some() && not_before.is_none_or(|due| due > now);
        match (tracked.phase(), not_before) {
            (Phase::Advisory | Phase::Ended, _) => Self::Never,
            (Phase::Started, _) => {
                Self::Started(tracked.running_since().unwrap_or(tracked.first_seen_at))
            }
            (Phase::Scheduled, _) if tracked.approval.is_approved() => Self::Approved,
            (Phase::Scheduled, _) if tracked.approval.may_be_approved() => Self::MayBeApproved,
            (Phase::Scheduled, _) if is_to_be_approved => Self::AboutToBeApproved,
            (Phase::Scheduled, Some(not_before)) => Self::NotBefore(not_before),
            (Phase::Scheduled, None) => Self::NotAnnounced,
        }
    }

    /// Negative infinity if it has started or may start at any moment, `None` if it never starts.
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
}

#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(test)]
mod tests;
