//! What the exporter decides about each event of this VM: its alerts, whether it is open, and the words about it.

use std::{borrow::Cow, collections::HashSet, fmt};

use crate::{
    assessment::{self, AlertState},
    lifecycle::TrackedEvent,
    metrics::{
        catalog,
        family::{self, Backend},
        labels::SharedLabels,
    },
    snapshot::Snapshot,
    text::label_value,
    time::Moment,
};

pub(super) struct Decisions<'a> {
    events: Vec<(&'a TrackedEvent, SharedLabels<'a>)>,
    snapshot: &'a Snapshot,
    now: Moment,
}

impl<'a> Decisions<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, now: Moment) -> Self {
        // Ids that differ only in characters that labels do not show would be duplicate series.
        let mut ids: HashSet<Cow<'_, str>> = HashSet::new();
        let events = snapshot.events.iter().map(AsRef::as_ref);
        let events = events.filter(|tracked| assessment::concerns_vm(tracked, now.wall));
        let labelled = events.filter_map(|tracked: &TrackedEvent| {
            let id = label_value(tracked.event.id.as_str());
            let is_new = ids.insert(id.clone());
            is_new.then(|| (tracked, SharedLabels::new(vec![("event_id", id)])))
        });
        Self {
            events: labelled.collect(),
            snapshot,
            now,
        }
    }

    pub(super) fn alerts(&self, backend: &mut Backend<'_>) -> fmt::Result {
        if self.events.is_empty() {
            return Ok(());
        }
        let mut family = family::begin(backend, &catalog::EVENT_ALERT)?;
        for (tracked, id) in &self.events {
            for alert in assessment::alerts(tracked, self.now.wall) {
                let labels = [
                    ("event_type", &*label_value(alert.event_type.as_str())),
                    ("event_source", &*label_value(alert.source)),
                    ("alert", alert.rule.name),
                    ("severity", alert.rule.severity),
                ];
                let applies = !matches!(alert.state, AlertState::Obsolete(_));
                family.shared_int_gauge(id, &labels, applies.into())?;
            }
        }
        Ok(())
    }

    pub(super) fn messages(&self, backend: &mut Backend<'_>) -> fmt::Result {
        if self.events.is_empty() {
            return Ok(());
        }
        let mut family = family::begin(backend, &catalog::EVENT_MESSAGE)?;
        for (tracked, id) in &self.events {
            let message = assessment::message(tracked, self.snapshot, self.now.wall);
            let labels = [
                ("summary", message.summary.as_str()),
                ("description", &message.description),
            ];
            family.shared_gauge(id, &labels, message.since.as_unix_seconds())?;
        }
        Ok(())
    }

    pub(super) fn open(&self, backend: &mut Backend<'_>) -> fmt::Result {
        let open = |tracked| assessment::is_open(tracked, self.snapshot, self.now);
        let known = self.events.iter();
        let mut known = known
            .filter_map(|(tracked, id)| Some((open(tracked)?, id)))
            .peekable();
        if known.peek().is_none() {
            return Ok(());
        }
        let mut family = family::begin(backend, &catalog::EVENT_OPEN)?;
        known.try_for_each(|(is_open, id)| family.shared_int_gauge(id, &[], is_open.into()))
    }
}
