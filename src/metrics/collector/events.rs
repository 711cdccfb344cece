//! The series of each event: present while it is pending or lingers, with the labels that all of them have.

use std::{borrow::Cow, fmt};

use prometheus_client::encoding::DescriptorEncoder;

use crate::{
    event::{Source, Status},
    lifecycle::{Phase, TrackedEvent},
    metrics::{
        MetricsOptions,
        catalog::{self, Metric},
        family,
    },
    snapshot::Snapshot,
    text::printable,
    time::Moment,
};

/// Azure's texts are shorter; what is longer is cut, so that nobody can fill a Prometheus through us.
const MAX_VALUE: usize = 256;

/// All of them, in the order of the catalog.
pub(super) fn encode(
    snapshot: &Snapshot,
    exposed: MetricsOptions,
    now: Moment,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let events: Vec<Shown<'_>> = snapshot.exposed(exposed.scope).map(Shown::new).collect();
    each(encoder, &catalog::EVENT_DURATION, &events, |tracked| {
        tracked.event.duration_seconds.map(|s| s as f64)
    })?;
    ended(encoder, &events)?;
    each(encoder, &catalog::EVENT_FIRST_SEEN, &events, |tracked| {
        Some(tracked.first_seen_at.as_unix_seconds())
    })?;
    info(encoder, &events)?;
    each(encoder, &catalog::EVENT_COUNTDOWN, &events, |tracked| {
        tracked.countdown_seconds(now.wall)
    })?;
    each(encoder, &catalog::EVENT_NOT_BEFORE, &events, |tracked| {
        Some(tracked.event.not_before?.as_unix_seconds())
    })?;
    each(
        encoder,
        &catalog::EVENT_OBSERVED_INTERRUPTION,
        &events,
        |tracked| Some(tracked.observed_interruption()?.as_secs_f64()),
    )?;
    if exposed.resources {
        resource_info(encoder, &events)?;
    }
    each(encoder, &catalog::EVENT_RESOURCES, &events, |tracked| {
        Some(tracked.event.resources.as_ref()?.len() as f64)
    })?;
    each(encoder, &catalog::EVENT_STARTED, &events, |tracked| {
        Some(tracked.started_at?.as_unix_seconds())
    })?;
    status(encoder, &events)
}

/// One event with the values of the labels that all its series have.
struct Shown<'a> {
    tracked: &'a TrackedEvent,
    event_type: Cow<'a, str>,
    event_source: Cow<'a, str>,
}

impl<'a> Shown<'a> {
    fn new(tracked: &'a TrackedEvent) -> Self {
        let source = tracked.event.source.as_ref().map_or("", Source::as_str);
        Self {
            tracked,
            event_type: bounded(tracked.event.event_type.as_str()),
            event_source: bounded(source),
        }
    }

    fn labels(&self) -> [(&'static str, &str); 4] {
        [
            ("event_id", self.tracked.event.id.as_str()),
            ("event_type", &self.event_type),
            ("event_source", &self.event_source),
            ("scope", self.tracked.scope.as_str()),
        ]
    }

    fn with<'s>(&'s self, label: (&'static str, &'s str)) -> [(&'static str, &'s str); 5] {
        let [id, event_type, source, scope] = self.labels();
        [id, event_type, source, scope, label]
    }
}

/// A gauge for each event of which `value` knows one.
fn each(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    events: &[Shown<'_>],
    value: impl Fn(&TrackedEvent) -> Option<f64>,
) -> fmt::Result {
    let mut known = events
        .iter()
        .filter_map(|shown| Some((shown, value(shown.tracked)?)))
        .peekable();
    if known.peek().is_none() {
        return Ok(());
    }
    let mut family = family::begin(encoder, metric)?;
    known.try_for_each(|(shown, value)| family.gauge(&shown.labels(), value))
}

fn ended(encoder: &mut DescriptorEncoder<'_>, events: &[Shown<'_>]) -> fmt::Result {
    let mut ended = events
        .iter()
        .filter_map(|shown| Some((shown, shown.tracked.end?)))
        .peekable();
    if ended.peek().is_none() {
        return Ok(());
    }
    let mut family = family::begin(encoder, &catalog::EVENT_ENDED)?;
    ended.try_for_each(|(shown, end)| {
        let labels = shown.with(("outcome", end.outcome.as_str()));
        family.gauge(&labels, end.at.as_unix_seconds())
    })
}

fn info(encoder: &mut DescriptorEncoder<'_>, events: &[Shown<'_>]) -> fmt::Result {
    if events.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(encoder, &catalog::EVENT_INFO)?;
    events.iter().try_for_each(|shown| {
        let [id, event_type, source, scope] = shown.labels();
        let resource_type = bounded(
            shown
                .tracked
                .event
                .resource_type
                .as_deref()
                .unwrap_or_default(),
        );
        let description = bounded(
            shown
                .tracked
                .event
                .description
                .as_deref()
                .unwrap_or_default(),
        );
        let resource_type = ("resource_type", &*resource_type);
        let description = ("description", &*description);
        family.whole(
            &[id, event_type, source, scope, resource_type, description],
            1,
        )
    })
}

/// A state set: 1 for the state that is, 0 for the others.
fn status(encoder: &mut DescriptorEncoder<'_>, events: &[Shown<'_>]) -> fmt::Result {
    if events.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(encoder, &catalog::EVENT_STATUS)?;
    for shown in events {
        let ended = shown.tracked.phase() == Phase::Ended;
        let is = |status: &Status| !ended && shown.tracked.event.status == *status;
        let known = [
            ("Scheduled", is(&Status::Scheduled)),
            ("Started", is(&Status::Started)),
            ("Ended", ended),
        ];
        for (word, is) in known {
            family.whole(&shown.with(("event_status", word)), is.into())?;
        }
        if let Status::Other(word) = &shown.tracked.event.status {
            family.whole(
                &shown.with(("event_status", &bounded(word))),
                (!ended).into(),
            )?;
        }
    }
    Ok(())
}

fn resource_info(encoder: &mut DescriptorEncoder<'_>, events: &[Shown<'_>]) -> fmt::Result {
    let mut named = std::collections::BTreeSet::new();
    for shown in events {
        let resources = shown.tracked.event.resources.iter().flatten();
        named
            .extend(resources.map(|resource| (shown.tracked.event.id.as_str(), bounded(resource))));
    }
    if named.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(encoder, &catalog::EVENT_RESOURCE_INFO)?;
    named
        .iter()
        .try_for_each(|(id, resource)| family.whole(&[("event_id", id), ("resource", resource)], 1))
}

/// Free text as a label value: control characters replaced, and cut where it is too long.
fn bounded(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_VALUE && !text.contains(char::is_control) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().take(MAX_VALUE).map(printable).collect())
    }
}
