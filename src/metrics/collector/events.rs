//! The series of each pending or recently ended event.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    fmt,
};

use super::{Write, decisions::Decisions};
use crate::{
    event::{Source, Status, resource_name},
    lifecycle::{Phase, TrackedEvent},
    metrics::{
        MetricsOptions,
        catalog::{self, Metric},
        family::{Family, Label},
    },
    snapshot::Snapshot,
    text::label_value,
    time::Moment,
};

/// In the order of the catalog.
pub(super) fn write(
    snapshot: &Snapshot,
    options: MetricsOptions,
    now: Moment,
    write: &mut Write<'_>,
) -> fmt::Result {
    // Ids that differ only in characters that labels do not show would be duplicate series.
    let mut ids = HashSet::new();
    let events: Vec<EventLabels<'_>> = snapshot
        .exposed(options.scope)
        .map(EventLabels::new)
        .filter(|event| ids.insert(event.event_id.clone()))
        .collect();
    let decisions = Decisions::new(snapshot, now);
    write(decisions.alerts())?;
    write(gauge(&catalog::EVENT_DURATION, &events, |tracked| {
        tracked.event.duration_seconds.map(|s| s as f64)
    }))?;
    write(ended(&events))?;
    write(gauge(&catalog::EVENT_FIRST_SEEN, &events, |tracked| {
        Some(tracked.first_seen_at.as_unix_seconds())
    }))?;
    write(info(&events))?;
    write(decisions.messages())?;
    write(gauge(&catalog::EVENT_COUNTDOWN, &events, |tracked| {
        tracked.countdown_seconds(now.wall)
    }))?;
    write(gauge(&catalog::EVENT_NOT_BEFORE, &events, |tracked| {
        Some(tracked.event.not_before?.as_unix_seconds())
    }))?;
    let interruption = &catalog::EVENT_OBSERVED_INTERRUPTION;
    write(gauge(interruption, &events, |tracked| {
        Some(tracked.observed_interruption()?.as_secs_f64())
    }))?;
    write(decisions.open())?;
    if options.resources {
        write(resource_info(&events))?;
    }
    write(gauge(&catalog::EVENT_RESOURCES, &events, |tracked| {
        let names = tracked.event.resources.as_ref();
        let all = names.filter(|_| !tracked.event.has_more_resources);
        Some(all?.len() as f64)
    }))?;
    write(gauge(&catalog::EVENT_STARTED, &events, |tracked| {
        Some(tracked.running_since()?.as_unix_seconds())
    }))?;
    write(status(&events))
}

/// An event and the labels of all its series.
struct EventLabels<'a> {
    tracked: &'a TrackedEvent,
    event_id: Cow<'a, str>,
    event_type: Cow<'a, str>,
    source: Cow<'a, str>,
}

impl<'a> EventLabels<'a> {
    fn new(tracked: &'a TrackedEvent) -> Self {
        let source = tracked.event.source.as_ref().map_or("", Source::as_str);
        Self {
            tracked,
            event_id: label_value(tracked.event.id.as_str()),
            event_type: label_value(tracked.event.event_type.as_str()),
            source: label_value(source),
        }
    }

    /// These labels, and then `own`.
    fn with<'s, const N: usize>(&'s self, own: [Label<'s>; N]) -> Vec<Label<'s>> {
        let shared = [
            ("event_id", Cow::Borrowed(&*self.event_id)),
            ("event_type", Cow::Borrowed(&*self.event_type)),
            ("event_source", Cow::Borrowed(&*self.source)),
            ("scope", self.tracked.scope.as_str().into()),
        ];
        shared.into_iter().chain(own).collect()
    }
}

/// A gauge for each event that has a value.
fn gauge<'a>(
    metric: &'static Metric,
    events: &'a [EventLabels<'_>],
    value: impl Fn(&TrackedEvent) -> Option<f64>,
) -> Family<'a> {
    let values = events
        .iter()
        .filter_map(|event| Some((event.with([]), value(event.tracked)?)));
    Family::new(metric, values)
}

fn ended<'a>(events: &'a [EventLabels<'_>]) -> Family<'a> {
    let ended = events.iter().filter_map(|event| {
        let end = event.tracked.end?;
        let outcome = ("outcome", end.outcome.as_str().into());
        Some((event.with([outcome]), end.at.as_unix_seconds()))
    });
    Family::new(&catalog::EVENT_ENDED, ended)
}

fn info<'a>(events: &'a [EventLabels<'_>]) -> Family<'a> {
    let info = events.iter().map(|labels| {
        let event = &labels.tracked.event;
        let resource_type = event.resource_type.as_deref().unwrap_or_default();
        let description = event.description.as_deref().unwrap_or_default();
        let own = [
            ("resource_type", label_value(resource_type)),
            ("description", label_value(description)),
        ];
        (labels.with(own), true)
    });
    Family::new(&catalog::EVENT_INFO, info)
}

/// A state set: 1 for the current status, 0 for the others.
fn status<'a>(events: &'a [EventLabels<'_>]) -> Family<'a> {
    let states = events.iter().flat_map(|event| {
        let ended = event.tracked.phase() == Phase::Ended;
        let status = &event.tracked.event.status;
        let known = [
            ("Scheduled", !ended && *status == Status::Scheduled),
            ("Started", !ended && *status == Status::Started),
            ("Ended", ended),
        ];
        let is_known = known.iter().any(|(known, _)| *known == status.as_str());
        let unknown = (!is_known).then(|| (label_value(status.as_str()), !ended));
        let known = known.map(|(status, is_current)| (status.into(), is_current));
        let all = known.into_iter().chain(unknown);
        all.map(|(status, is_current)| (event.with([("event_status", status)]), is_current))
    });
    Family::new(&catalog::EVENT_STATUS, states)
}

fn resource_info<'a>(events: &'a [EventLabels<'_>]) -> Family<'a> {
    let resources = events.iter().flat_map(|event| {
        // Names that differ only in characters that labels do not show would be duplicate series.
        let names = event.tracked.event.resources.iter().flatten();
        let names: BTreeSet<_> = names.map(|name| label_value(resource_name(name))).collect();
        let id = Cow::Borrowed(&*event.event_id);
        let labels = move |name| [("event_id", id.clone()), ("resource", name)];
        names.into_iter().map(move |name| (labels(name), true))
    });
    Family::new(&catalog::EVENT_RESOURCE_INFO, resources)
}
