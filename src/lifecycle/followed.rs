//! What one event goes through: from its first sight over what each document says of it to its end.

use std::{sync::Arc, time::Duration};

use super::{
    life::{Ending, Interruption, Life, Rescheduling},
    transition::{Transition, What},
};
use crate::{
    event::{Event, Scope, Status},
    time::{Moment, Timestamp},
};

/// A life, and what only the tracker needs beside it.
#[derive(Debug, Clone)]
pub(super) struct Followed {
    pub(super) life: Arc<Life>,
    /// When it need no longer be shown, by the monotonic clock; only of use where the life has an ending.
    pub(super) forget_at: Duration,
    /// It was missing from the last document, and may be the entry of it that could not be read.
    pub(super) is_hidden: bool,
}

impl Followed {
    /// The event is in a document for the first time.
    pub(super) fn begin(
        event: &Event,
        own_name: Option<&str>,
        seen_late: bool,
        now: Timestamp,
        happened: &mut Vec<Transition>,
    ) -> Self {
        let life = Life::begin(event.clone(), event.scope(own_name), seen_late, now);
        let mut followed = Self {
            life: Arc::new(life),
            forget_at: Duration::ZERO,
            is_hidden: false,
        };
        happened.push(followed.happened(What::Appeared, now));
        if event.status == Status::Started {
            happened.push(followed.start(now));
        }
        followed
    }

    pub(super) fn life_mut(&mut self) -> &mut Life {
        Arc::make_mut(&mut self.life)
    }

    pub(super) fn happened(&self, what: What, at: Timestamp) -> Transition {
        Transition {
            at,
            what,
            life: Arc::clone(&self.life),
        }
    }

    fn start(&mut self, now: Timestamp) -> Transition {
        self.life_mut().started_at = Some(now);
        self.happened(What::Started, now)
    }

    pub(super) fn end(&mut self, now: Moment, linger: Duration, watched: bool) -> Transition {
        self.forget_at = now.monotonic.saturating_add(linger);
        let outcome = self.life.outcome(now.wall, watched && !self.is_hidden);
        let life = self.life_mut();
        life.ending = Some(Ending {
            at: now.wall,
            outcome,
        });
        life.times_ended = life.times_ended.saturating_add(1);
        if life.started_at.is_none() {
            life.times_ended_unstarted = life.times_ended;
        }
        self.happened(What::Ended(outcome), now.wall)
    }

    pub(super) fn interrupt(
        &mut self,
        interruption: Interruption,
        now: Timestamp,
    ) -> Option<Transition> {
        if !self.life.is_pending() || self.life.scope != Scope::Own {
            return None;
        }
        self.life_mut().interrupt(interruption);
        Some(self.happened(What::Interrupted(interruption), now))
    }

    /// The first document after a boot: the VM was down until now.
    pub(super) fn up_again(&mut self, now: Timestamp) -> Option<Transition> {
        self.life.down_since?;
        let length = now.saturating_since(self.life_mut().down_since.take()?);
        (length >= Interruption::SHORTEST)
            .then(|| self.interrupt(Interruption { until: now, length }, now))?
    }

    /// The event is in a document again: says what is new about it.
    pub(super) fn update(
        &mut self,
        event: &Event,
        own_name: Option<&str>,
        now: Timestamp,
        happened: &mut Vec<Transition>,
    ) {
        self.is_hidden = false;
        if !self.life.is_pending() {
            self.life_mut().ending = None;
            happened.push(self.happened(What::Returned, now));
        }
        let is_same = {
            let known = &self.life.event;
            (event.not_before.is_none() || event.not_before == known.not_before)
                && event.status == known.status
                && is_rest_equal(known, event)
        };
        if is_same {
            return;
        }
        let was = self.life.event.clone();
        let was_scope = self.life.scope;
        let scope = event.scope(own_name);
        let life = self.life_mut();
        life.event = Event {
            id: was.id.clone(),
            not_before: was.not_before,
            ..known_rest(&was, event)
        };
        life.scope = scope;
        if !is_rest_equal(&was, &self.life.event) {
            happened.push(self.happened(What::Amended { was_scope }, now));
        }
        if let Some(to) = event.not_before.filter(|to| was.not_before != Some(*to)) {
            let rescheduling = Rescheduling {
                at: now,
                from: was.not_before,
                to,
            };
            self.life_mut().reschedule(rescheduling);
            happened.push(self.happened(What::Rescheduled(rescheduling), now));
        }
        if event.status == Status::Started && self.life.started_at.is_none() {
            happened.push(self.start(now));
        } else if event.status != was.status {
            happened.push(self.happened(What::StatusChanged(was.status), now));
        }
    }
}

/// What is said now, and what was said before where nothing is said now.
fn known_rest(was: &Event, now: &Event) -> Event {
    Event {
        resources: now.resources.clone().or_else(|| was.resources.clone()),
        source: now.source.clone().or_else(|| was.source.clone()),
        resource_type: now
            .resource_type
            .clone()
            .or_else(|| was.resource_type.clone()),
        description: now.description.clone().or_else(|| was.description.clone()),
        ..now.clone()
    }
}

/// Whether two sights of an event agree in all but status and `NotBefore`, which have transitions of their own.
fn is_rest_equal(was: &Event, now: &Event) -> bool {
    was.event_type == now.event_type
        && was.source == now.source
        && was.resource_type == now.resource_type
        && was.resources == now.resources
        && was.duration_seconds == now.duration_seconds
        && was.description == now.description
        && was.unknown_members == now.unknown_members
}
