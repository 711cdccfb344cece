//! What the exporter decides about each event of this VM: its alerts, whether it is open, and the words about it.

use std::{borrow::Cow, collections::HashSet};

use crate::{
    assessment::{self, AlertState},
    lifecycle::TrackedEvent,
    metrics::{catalog, family::Family},
    snapshot::Snapshot,
    text::label_value,
    time::Moment,
};

pub(super) struct Decisions<'a> {
    /// With their ids as labels.
    events: Vec<(&'a TrackedEvent, Cow<'a, str>)>,
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
            ids.insert(id.clone()).then_some((tracked, id))
        });
        Self {
            events: labelled.collect(),
            snapshot,
            now,
        }
    }

    pub(super) fn alerts(&self) -> Family<'_> {
        let alerts = self.events.iter().flat_map(|(tracked, id)| {
            let alerts = assessment::alerts(tracked, self.now.wall).into_iter();
            alerts.map(|alert| {
                let labels = [
                    ("event_id", id.clone()),
                    ("event_type", label_value(alert.event_type.as_str())),
                    ("event_source", label_value(alert.source)),
                    ("alert", alert.rule.name.into()),
                    ("severity", alert.rule.severity.into()),
                ];
                (labels, !matches!(alert.state, AlertState::Obsolete(_)))
            })
        });
        Family::new(&catalog::EVENT_ALERT, alerts)
    }

    pub(super) fn messages(&self) -> Family<'_> {
        let messages = self.events.iter().map(|(tracked, id)| {
            let message = assessment::message(tracked, self.snapshot, self.now.wall);
            let labels = [
                ("event_id", id.clone()),
                ("summary", message.summary.into()),
                ("description", message.description.into()),
            ];
            (labels, message.since.as_unix_seconds())
        });
        Family::new(&catalog::EVENT_MESSAGE, messages)
    }

    pub(super) fn open(&self) -> Family<'_> {
        let open = self.events.iter().filter_map(|(tracked, id)| {
            let is_open = assessment::is_open(tracked, self.snapshot, self.now)?;
            Some(([("event_id", id.clone())], is_open))
        });
        Family::new(&catalog::EVENT_OPEN, open)
    }
}
