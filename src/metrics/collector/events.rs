//! The series of each event: present while it is pending or lingers, with the labels that all of them have.

use std::{borrow::Cow, fmt};

use prometheus_client::encoding::DescriptorEncoder;

use crate::{
    event::{Source, Status},
    lifecycle::{Life, Phase},
    metrics::{
        Exposed,
        catalog::{self, Metric},
        family,
    },
    text::printable,
    time::Moment,
    view::View,
};

/// Azure's texts are shorter; what is longer is cut, so that nobody can fill a Prometheus through us.
const LONGEST_VALUE: usize = 256;

/// All of them, in the order of the catalog.
pub(super) fn encode(
    view: &View,
    exposed: Exposed,
    now: Moment,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let lives: Vec<Shown<'_>> = view.exposed(exposed.scope).map(Shown::new).collect();
    each(encoder, &catalog::EVENT_DURATION, &lives, |life| {
        life.event.duration_seconds.map(|s| s as f64)
    })?;
    ended(encoder, &lives)?;
    each(encoder, &catalog::EVENT_FIRST_SEEN, &lives, |life| {
        Some(life.first_seen_at.as_unix_seconds())
    })?;
    info(encoder, &lives)?;
    each(encoder, &catalog::EVENT_COUNTDOWN, &lives, |life| {
        life.countdown_seconds(now.wall)
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
    if exposed.resources {
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

/// Free text as a label value: control characters replaced, and cut where it is too long.
fn bounded(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_VALUE && !text.contains(char::is_control) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().take(LONGEST_VALUE).map(printable).collect())
    }
}
