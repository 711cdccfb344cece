//! Which samples a picture has.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::{
    Exposed,
    catalog::{self, Metric},
    family::{self, Labels},
    process,
};
use crate::{
    event::{EventType, Scope, Source, Status},
    lifecycle::{Life, Phase},
    time::Moment,
    view::{Histogram, TypeLabel, View},
};

/// Azure's texts are shorter; what is longer is cut, so that nobody can fill a Prometheus through us.
const LONGEST_VALUE: usize = 256;

/// One scrape of one picture.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) view: Arc<View>,
    pub(super) exposed: Exposed,
    pub(super) now: Moment,
}

impl Collector for Scrape {
    /// In the order of the catalog.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.events(&mut encoder)?;
        self.deliveries_before(&mut encoder)?;
        self.exporter(&mut encoder)?;
        if self.exposed.process {
            process::encode(&mut encoder)
        } else {
            Ok(())
        }
    }
}

impl Scrape {
    fn events(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let lives: Vec<Shown<'_>> = self
            .view
            .exposed(self.exposed.scope)
            .map(Shown::new)
            .collect();
        let now = self.now;
        each(encoder, &catalog::EVENT_DURATION, &lives, |life| {
            life.event.duration_seconds.map(|s| s as f64)
        })?;
        ended(encoder, &lives)?;
        each(encoder, &catalog::EVENT_FIRST_SEEN, &lives, |life| {
            Some(life.first_seen_at.as_unix_seconds())
        })?;
        info(encoder, &lives)?;
        each(encoder, &catalog::EVENT_COUNTDOWN, &lives, |life| {
            countdown(life, now)
        })?;
        each(encoder, &catalog::EVENT_NOT_BEFORE, &lives, |life| {
            Some(life.event.not_before?.as_unix_seconds())
        })?;
        each(
            encoder,
            &catalog::EVENT_OBSERVED_INTERRUPTION,
            &lives,
            |life| Some(life.observed_interruption()?.as_secs_f64()),
        )?;
        if self.exposed.resources {
            resource_info(encoder, &lives)?;
        }
        each(encoder, &catalog::EVENT_RESOURCES, &lives, |life| {
            Some(life.event.resources.as_ref()?.len() as f64)
        })?;
        each(encoder, &catalog::EVENT_STARTED, &lives, |life| {
            Some(life.started_at?.as_unix_seconds())
        })?;
        status(encoder, &lives)
    }

    fn exporter(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let View { health, tally, .. } = &*self.view;
        let mut anomalies = family::begin(encoder, &catalog::ANOMALIES)?;
        for (kind, count) in &tally.anomalies {
            anomalies.counter(&[("kind", kind.as_str())], *count)?;
        }
        if let Some(incarnation) = health.incarnation {
            family::begin(encoder, &catalog::INCARNATION)?.whole(&[], incarnation)?;
        }
        let mut ended = family::begin(encoder, &catalog::ENDED)?;
        for ((event_type, outcome), counted) in &tally.ended {
            let labels = [
                ("event_type", event_type.as_str()),
                ("outcome", outcome.as_str()),
            ];
            ended.events(&labels, counted.count, counted.last.as_ref())?;
        }
        build_info(encoder)?;
        family::begin(encoder, &catalog::IMDS_DURATION)?
            .histogram(&[], &health.request_duration)?;
        let mut failures = family::begin(encoder, &catalog::IMDS_FAILURES)?;
        for (reason, count) in health.failures() {
            failures.counter(&[("reason", reason.as_str())], count)?;
        }
        family::count(encoder, &catalog::IMDS_REQUESTS, health.requests)?;
        by_type(encoder, &catalog::IMPACT, &tally.impact)?;
        let last_success = health.last_success.map(|at| at.wall.as_unix_seconds());
        family::single(encoder, &catalog::LAST_SUCCESS, last_success)?;
        by_type(encoder, &catalog::NOTICE, &tally.notice)?;
        by_type(
            encoder,
            &catalog::OBSERVED_INTERRUPTION,
            &tally.interruption,
        )?;
        let mut observed = family::begin(encoder, &catalog::OBSERVED)?;
        for ((event_type, scope), counted) in &tally.observed {
            let labels = [
                ("event_type", event_type.as_str()),
                ("scope", scope.as_str()),
            ];
            observed.events(&labels, counted.count, counted.last.as_ref())?;
        }
        self.pending(encoder)?;
        self.deliveries_after(encoder)?;
        family::begin(encoder, &catalog::UP)?.whole(&[], health.is_up().into())?;
        self.vm_info(encoder)
    }

    /// Zeros are a statement too, so there are none before a document was read.
    fn pending(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if !self.view.has_document {
            return Ok(());
        }
        let known = EventType::KNOWN.into_iter().map(TypeLabel::from);
        let zeros = known.flat_map(|label| {
            [Scope::Own, Scope::Other].map(|scope| ((label.clone(), scope), 0_i64))
        });
        let mut pending: BTreeMap<_, _> = zeros.collect();
        for life in self.view.pending() {
            *pending
                .entry((TypeLabel::from(life.event.event_type.clone()), life.scope))
                .or_default() += 1;
        }
        let mut family = family::begin(encoder, &catalog::PENDING)?;
        pending.iter().try_for_each(|((event_type, scope), count)| {
            family.whole(
                &[
                    ("event_type", event_type.as_str()),
                    ("scope", scope.as_str()),
                ],
                *count,
            )
        })
    }

    fn vm_info(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(identity) = &self.view.identity else {
            return Ok(());
        };
        let labels = [
            ("vm_name", identity.name.as_str()),
            ("vm_id", identity.vm_id.as_str()),
            ("vm_scale_set", identity.scale_set.as_str()),
            ("vm_size", identity.vm_size.as_str()),
            ("location", identity.location.as_str()),
        ];
        family::begin(encoder, &catalog::VM_INFO)?.whole(&labels, 1)
    }

    /// What was sent, in two parts because the catalog is in the order of the names.
    fn deliveries_before(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let deliveries = &self.view.deliveries;
        family::count(
            encoder,
            &catalog::ALERT_PUSH_FAILURES,
            deliveries.alert_push_failures,
        )?;
        family::count(encoder, &catalog::ALERT_PUSHES, deliveries.alert_pushes)?;
        let mut approvals = family::begin(encoder, &catalog::APPROVALS)?;
        deliveries
            .approvals
            .iter()
            .try_for_each(|((event_type, result), count)| {
                approvals.counter(
                    &[
                        ("event_type", event_type.as_str()),
                        ("result", result.as_str()),
                    ],
                    *count,
                )
            })
    }

    fn deliveries_after(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let deliveries = &self.view.deliveries;
        let mut failures = family::begin(encoder, &catalog::SPAN_EXPORT_FAILURES)?;
        for (reason, count) in &deliveries.span_export_failures {
            failures.counter(&[("reason", reason.as_str())], *count)?;
        }
        let mut dropped = family::begin(encoder, &catalog::SPANS_DROPPED)?;
        for (reason, count) in &deliveries.spans_dropped {
            dropped.counter(&[("reason", reason.as_str())], *count)?;
        }
        family::count(encoder, &catalog::SPANS_EXPORTED, deliveries.spans_exported)?;
        family::single(
            encoder,
            &catalog::SPANS_SPOOLED,
            Some(deliveries.spans_spooled as f64),
        )?;
        family::count(
            encoder,
            &catalog::STATE_WRITE_FAILURES,
            deliveries.state_write_failures,
        )
    }
}

/// One event with the values of the labels that all its series have.
struct Shown<'a> {
    life: &'a Life,
    event_type: Cow<'a, str>,
    event_source: Cow<'a, str>,
}

impl<'a> Shown<'a> {
    fn new(life: &'a Life) -> Self {
        let source = life.event.source.as_ref().map_or("", Source::as_str);
        Self {
            life,
            event_type: bounded(life.event.event_type.as_str()),
            event_source: bounded(source),
        }
    }

    fn labels(&self) -> [(&'static str, &str); 4] {
        [
            ("event_id", self.life.event.id.as_str()),
            ("event_type", &self.event_type),
            ("event_source", &self.event_source),
            ("scope", self.life.scope.as_str()),
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
    lives: &[Shown<'_>],
    value: impl Fn(&Life) -> Option<f64>,
) -> fmt::Result {
    let mut known = lives
        .iter()
        .filter_map(|shown| Some((shown, value(shown.life)?)))
        .peekable();
    if known.peek().is_none() {
        return Ok(());
    }
    let mut family = family::begin(encoder, metric)?;
    known.try_for_each(|(shown, value)| family.gauge(&shown.labels(), value))
}

fn ended(encoder: &mut DescriptorEncoder<'_>, lives: &[Shown<'_>]) -> fmt::Result {
    let mut ended = lives
        .iter()
        .filter_map(|shown| Some((shown, shown.life.ending?)))
        .peekable();
    if ended.peek().is_none() {
        return Ok(());
    }
    let mut family = family::begin(encoder, &catalog::EVENT_ENDED)?;
    ended.try_for_each(|(shown, ending)| {
        let labels = shown.with(("outcome", ending.outcome.as_str()));
        family.gauge(&labels, ending.at.as_unix_seconds())
    })
}

fn info(encoder: &mut DescriptorEncoder<'_>, lives: &[Shown<'_>]) -> fmt::Result {
    if lives.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(encoder, &catalog::EVENT_INFO)?;
    lives.iter().try_for_each(|shown| {
        let [id, event_type, source, scope] = shown.labels();
        let resource_type = bounded(
            shown
                .life
                .event
                .resource_type
                .as_deref()
                .unwrap_or_default(),
        );
        let description = bounded(shown.life.event.description.as_deref().unwrap_or_default());
        let resource_type = ("resource_type", &*resource_type);
        let description = ("description", &*description);
        family.whole(
            &[id, event_type, source, scope, resource_type, description],
            1,
        )
    })
}

/// A state set: 1 for the state that is, 0 for the others.
fn status(encoder: &mut DescriptorEncoder<'_>, lives: &[Shown<'_>]) -> fmt::Result {
    if lives.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(encoder, &catalog::EVENT_STATUS)?;
    for shown in lives {
        let ended = shown.life.phase() == Phase::Ended;
        let is = |status: &Status| !ended && shown.life.event.status == *status;
        let known = [
            ("Scheduled", is(&Status::Scheduled)),
            ("Started", is(&Status::Started)),
            ("Ended", ended),
        ];
        for (word, is) in known {
            family.whole(&shown.with(("event_status", word)), is.into())?;
        }
        if let Status::Other(word) = &shown.life.event.status {
            family.whole(
                &shown.with(("event_status", &bounded(word))),
                (!ended).into(),
            )?;
        }
    }
    Ok(())
}

fn resource_info(encoder: &mut DescriptorEncoder<'_>, lives: &[Shown<'_>]) -> fmt::Result {
    let mut named = std::collections::BTreeSet::new();
    for shown in lives {
        let resources = shown.life.event.resources.iter().flatten();
        named.extend(resources.map(|resource| (shown.life.event.id.as_str(), bounded(resource))));
    }
    if named.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(encoder, &catalog::EVENT_RESOURCE_INFO)?;
    named
        .iter()
        .try_for_each(|(id, resource)| family.whole(&[("event_id", id), ("resource", resource)], 1))
}

fn by_type(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    histograms: &BTreeMap<TypeLabel, Histogram>,
) -> fmt::Result {
    if histograms.is_empty() {
        return Ok(());
    }
    let mut family = family::begin(encoder, metric)?;
    histograms.iter().try_for_each(|(event_type, histogram)| {
        family.histogram(&[("event_type", event_type.as_str())], histogram)
    })
}

fn build_info(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let labels: Labels<'_> = &[
        ("version", env!("CARGO_PKG_VERSION")),
        ("revision", env!("BUILD_REVISION")),
        ("rustc", env!("BUILD_RUSTC")),
    ];
    family::begin(encoder, &catalog::BUILD_INFO)?.whole(labels, 1)
}

fn countdown(life: &Life, now: Moment) -> Option<f64> {
    let not_before = life.event.not_before?;
    match life.phase() {
        Phase::Scheduled => Some(not_before.seconds_from(now.wall)),
        Phase::Started => Some(0.0),
        Phase::Ended => None,
    }
}

/// Free text as a label value: control characters replaced, and cut where it is too long.
fn bounded(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    if text.len() <= LONGEST_VALUE && !text.contains(char::is_control) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().take(LONGEST_VALUE).map(harmless).collect())
    }
}
