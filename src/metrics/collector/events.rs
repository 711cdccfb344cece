//! The series of each pending or recently ended event.

use std::{borrow::Cow, collections::HashSet, fmt};

use super::decisions::Decisions;
use crate::{
    event::{Source, Status, resource_name},
    lifecycle::{Phase, TrackedEvent},
    metrics::{
        MetricsOptions,
        catalog::{self, Metric},
        family::{self, Backend},
        labels::SharedLabels,
    },
    snapshot::Snapshot,
    text::label_value,
    time::Moment,
};

/// In the order of the catalog.
pub(super) fn encode(
    snapshot: &Snapshot,
    options: MetricsOptions,
    now: Moment,
    backend: &mut Backend<'_>,
) -> fmt::Result {
    // Ids that differ only in characters that labels do not show would be duplicate series.
    let mut ids = HashSet::new();
    let events: Vec<EventLabels<'_>> = snapshot
        .exposed(options.scope)
        .map(EventLabels::new)
        .filter(|event| ids.insert(event.event_id.clone()))
        .collect();
    let decisions = Decisions::new(snapshot, now);
    decisions.alerts(backend)?;
    gauge_per_event(backend, &catalog::EVENT_DURATION, &events, |tracked| {
        tracked.event.duration_seconds.map(|s| s as f64)
    })?;
    ended(backend, &events)?;
    gauge_per_event(backend, &catalog::EVENT_FIRST_SEEN, &events, |tracked| {
        Some(tracked.first_seen_at.as_unix_seconds())
    })?;
    info(backend, &events)?;
    decisions.messages(backend)?;
    gauge_per_event(backend, &catalog::EVENT_COUNTDOWN, &events, |tracked| {
        tracked.countdown_seconds(now.wall)
    })?;
    gauge_per_event(backend, &catalog::EVENT_NOT_BEFORE, &events, |tracked| {
        Some(tracked.event.not_before?.as_unix_seconds())
    })?;
    gauge_per_event(
        backend,
        &catalog::EVENT_OBSERVED_INTERRUPTION,
        &events,
        |tracked| Some(tracked.observed_interruption()?.as_secs_f64()),
    )?;
    decisions.open(backend)?;
    if options.resources {
        resource_info(backend, &events)?;
    }
    gauge_per_event(backend, &catalog::EVENT_RESOURCES, &events, |tracked| {
        let names = tracked.event.resources.as_ref();
        let all = names.filter(|_| !tracked.event.has_more_resources);
        Some(all?.len() as f64)
    })?;
    gauge_per_event(backend, &catalog::EVENT_STARTED, &events, |tracked| {
        Some(tracked.running_since()?.as_unix_seconds())
    })?;
    status(backend, &events)
}

/// An event and the labels of all its series.
struct EventLabels<'a> {
    tracked: &'a TrackedEvent,
    event_id: Cow<'a, str>,
    labels: SharedLabels<'a>,
}

impl<'a> EventLabels<'a> {
    fn new(tracked: &'a TrackedEvent) -> Self {
        let source = tracked.event.source.as_ref().map_or("", Source::as_str);
        let event_id = label_value(tracked.event.id.as_str());
        let labels = SharedLabels::new(vec![
            ("event_id", event_id.clone()),
            ("event_type", label_value(tracked.event.event_type.as_str())),
            ("event_source", label_value(source)),
            ("scope", tracked.scope.as_str().into()),
        ]);
        Self {
            tracked,
            event_id,
            labels,
        }
    }
}

/// A gauge for each event that has a value.
fn gauge_per_event(
    backend: &mut Backend<'_>,
    metric: &Metric,
    events: &[EventLabels<'_>],
    value: impl Fn(&TrackedEvent) -> Option<f64>,
) -> fmt::Result {
    let mut values = events
        .iter()
        .filter_map(|event| Some((event, value(event.tracked)?)))
        .peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut family = family::begin(backend, metric)?;
    values.try_for_each(|(event, value)| family.shared_gauge(&event.labels, &[], value))
}

fn ended(backend: &mut Backend<'_>, events: &[EventLabels<'_>]) -> fmt::Result {
    let mut ended = events
        .iter()
        .filter_map(|event| Some((event, event.tracked.end?)))
        .peekable();
    if ended.peek().is_none() {
        return Ok(());
    }
    let mut family = family::begin(backend, &catalog::EVENT_ENDED)?;
    ended.try_for_each(|(event, end)| {
        let outcome = ("outcome", end.outcome.as_str());
        family.shared_gauge(&event.labels, &[outcome], end.at.as_unix_seconds())
    })
}

fn info(backend: &mut Backend<'_>, events: &[EventLabels<'_>]) -> fmt::Result {
    if events.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(backend, &catalog::EVENT_INFO)?;
    events.iter().try_for_each(|event| {
        let resource_type = label_value(
            event
                .tracked
                .event
                .resource_type
                .as_deref()
                .unwrap_or_default(),
        );
        let description = label_value(
            event
                .tracked
                .event
                .description
                .as_deref()
                .unwrap_or_default(),
        );
        let labels = [
            ("resource_type", &*resource_type),
            ("description", &*description),
        ];
        family.shared_int_gauge(&event.labels, &labels, 1)
    })
}

/// A state set: 1 for the current status, 0 for the others.
fn status(backend: &mut Backend<'_>, events: &[EventLabels<'_>]) -> fmt::Result {
    if events.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(backend, &catalog::EVENT_STATUS)?;
    for event in events {
        let ended = event.tracked.phase() == Phase::Ended;
        let status = &event.tracked.event.status;
        let known = [
            ("Scheduled", !ended && *status == Status::Scheduled),
            ("Started", !ended && *status == Status::Started),
            ("Ended", ended),
        ];
        for (status, is_current) in known {
            let label = ("event_status", status);
            family.shared_int_gauge(&event.labels, &[label], is_current.into())?;
        }
        if known.iter().all(|(known, _)| *known != status.as_str()) {
            let label = ("event_status", &*label_value(status.as_str()));
            family.shared_int_gauge(&event.labels, &[label], (!ended).into())?;
        }
    }
    Ok(())
}

fn resource_info(backend: &mut Backend<'_>, events: &[EventLabels<'_>]) -> fmt::Result {
    let mut resources = events.iter().map(|event| &event.tracked.event.resources);
    if resources.all(|names| names.as_ref().is_none_or(Vec::is_empty)) {
        return Ok(());
    }
    let mut family = family::begin(backend, &catalog::EVENT_RESOURCE_INFO)?;
    for event in events {
        // Names that differ only in characters that labels do not show would be duplicate series.
        let names = event.tracked.event.resources.iter().flatten();
        let mut names: Vec<_> = names.map(|name| label_value(resource_name(name))).collect();
        names.sort_unstable();
        names.dedup();
        let id = SharedLabels::new(vec![("event_id", Cow::Borrowed(&*event.event_id))]);
        for name in &names {
            family.shared_int_gauge(&id, &[("resource", name)], 1)?;
        }
    }
    Ok(())
}
