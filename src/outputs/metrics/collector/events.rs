//! The series of each pending or recently ended event.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    fmt,
};

use super::Write;
use crate::{
    azure::event::{Member, Status, resource_name},
    base::{text::label_value, time::Moment},
    core::{
        assessment::{self, AlertState, Judgement, judge},
        lifecycle::{Phase, TrackedEvent},
        snapshot::Snapshot,
    },
    outputs::metrics::{
        Family, MetricsOptions,
        catalog::{self, Metric},
    },
};

/// In the order of the catalog.
pub(super) fn write(
    snapshot: &Snapshot,
    options: MetricsOptions,
    now: Moment,
    write: &mut Write<'_>,
) -> fmt::Result {
    let events = labelled(snapshot.exposed(options.scope));
    let all = snapshot.events.iter().map(AsRef::as_ref);
    let own = labelled(all.filter(|tracked| assessment::concerns_vm(tracked, now)));
    let own = own
        .into_iter()
        .map(|event| (judge(event.tracked, now), event));
    let own: Vec<_> = own.collect();
    write(alerts(&own))?;
    write(gauge(&catalog::EVENT_DURATION, &events, |tracked| {
        tracked.shown.duration_seconds.map(|s| s as f64)
    }))?;
    write(ended(&events))?;
    write(gauge(&catalog::EVENT_FIRST_SEEN, &events, |tracked| {
        Some(tracked.first_seen_at.as_unix_seconds())
    }))?;
    write(info(&events))?;
    write(messages(&own, snapshot))?;
    write(gauge(&catalog::EVENT_COUNTDOWN, &events, |tracked| {
        tracked.countdown_seconds(now.wall)
    }))?;
    write(gauge(&catalog::EVENT_NOT_BEFORE, &events, |tracked| {
        Some(tracked.shown.not_before?.as_unix_seconds())
    }))?;
    let interruption = &catalog::EVENT_OBSERVED_INTERRUPTION;
    write(gauge(interruption, &events, |tracked| {
        Some(tracked.longest_interruption?.as_secs_f64())
    }))?;
    write(open(&own, snapshot))?;
    write(priority(&own, snapshot))?;
    if options.resources {
        write(resource_info(&events))?;
    }
    write(gauge(&catalog::EVENT_RESOURCES, &events, |tracked| {
        let names = tracked.shown.resources.as_ref();
        let all = names.filter(|_| !tracked.shown.has_more_resources);
        Some(all?.len() as f64)
    }))?;
    write(gauge(&catalog::EVENT_STARTED, &events, |tracked| {
        Some(tracked.running_since()?.as_unix_seconds())
    }))?;
    write(status(&events))
}

/// An event and the label values of all its series.
struct EventLabels<'a> {
    tracked: &'a TrackedEvent,
    shared: [Cow<'a, str>; 3],
}

impl EventLabels<'_> {
    fn id(&self) -> Cow<'_, str> {
        Cow::Borrowed(&*self.shared[0])
    }

    /// The values of `event_labels`, and then `own`.
    fn with<'s>(
        &'s self,
        own: impl IntoIterator<Item = Cow<'s, str>>,
    ) -> impl Iterator<Item = Cow<'s, str>> {
        let scope = Cow::Borrowed(self.tracked.scope.as_str());
        let shared = self.shared.iter().map(|value| Cow::Borrowed(&**value));
        shared.chain([scope]).chain(own)
    }
}

fn labelled<'a>(events: impl Iterator<Item = &'a TrackedEvent>) -> Vec<EventLabels<'a>> {
    // Ids that differ only in characters that labels do not show would be duplicate series.
    let mut ids = HashSet::new();
    let members = [Member::ID, Member::TYPE, Member::SOURCE];
    events
        .map(|tracked| EventLabels {
            tracked,
            shared: members
                .each_ref()
                .map(|member| member.label_value(&tracked.shown)),
        })
        .filter(|event| ids.insert(event.shared[0].clone()))
        .collect()
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
        let outcome = end.outcome.as_str().into();
        Some((event.with([outcome]), end.at.as_unix_seconds()))
    });
    Family::new(&catalog::EVENT_ENDED, ended)
}

fn info<'a>(events: &'a [EventLabels<'_>]) -> Family<'a> {
    let info = events.iter().map(|labels| {
        let own = [Member::RESOURCE_TYPE, Member::DESCRIPTION];
        let own = own.map(|member| member.label_value(&labels.tracked.shown));
        (labels.with(own), true)
    });
    Family::new(&catalog::EVENT_INFO, info)
}

/// A state set: 1 for the current status, 0 for the others.
fn status<'a>(events: &'a [EventLabels<'_>]) -> Family<'a> {
    let states = events.iter().flat_map(|event| {
        let ended = event.tracked.phase() == Phase::Ended;
        let status = &event.tracked.shown.status;
        let known = [
            ("Scheduled", !ended && *status == Status::Scheduled),
            ("Started", !ended && *status == Status::Started),
            ("Ended", ended),
        ];
        let is_known = known.iter().any(|(known, _)| *known == status.as_str());
        let unknown = (!is_known).then(|| (label_value(status.as_str()), !ended));
        let known = known.map(|(status, is_current)| (status.into(), is_current));
        let all = known.into_iter().chain(unknown);
        all.map(|(status, is_current)| (event.with([status]), is_current))
    });
    Family::new(&catalog::EVENT_STATUS, states)
}

fn resource_info<'a>(events: &'a [EventLabels<'_>]) -> Family<'a> {
    let resources = events.iter().flat_map(|event| {
        // Names that differ only in characters that labels do not show would be duplicate series.
        let names = event.tracked.shown.resources.iter().flatten();
        let names: BTreeSet<_> = names.map(|name| label_value(resource_name(name))).collect();
        let labels = move |name| [event.id(), name];
        names.into_iter().map(move |name| (labels(name), true))
    });
    Family::new(&catalog::EVENT_RESOURCE_INFO, resources)
}

type Judged<'a> = (Judgement<'a>, EventLabels<'a>);

fn alerts<'a>(own: &'a [Judged<'_>]) -> Family<'a> {
    let alerts = own.iter().flat_map(|(judgement, labels)| {
        judgement.alerts.iter().map(|alert| {
            let values = [
                labels.id(),
                label_value(alert.event_type.as_str()),
                label_value(alert.source),
                alert.rule.name.into(),
                alert.rule.severity.as_str().into(),
            ];
            let values = values.into_iter().chain(alert.owner.map(Cow::from));
            (values, !matches!(alert.state, AlertState::Obsolete(_)))
        })
    });
    Family::new(&catalog::EVENT_ALERT, alerts)
}

fn messages<'a>(own: &'a [Judged<'_>], snapshot: &Snapshot) -> Family<'a> {
    let messages = own.iter().map(|(judgement, labels)| {
        let words = judgement.words(snapshot);
        let description = words.description();
        let values = [labels.id(), words.summary.into(), description.into()];
        (values, words.since.as_unix_seconds())
    });
    Family::new(&catalog::EVENT_MESSAGE, messages)
}

fn open<'a>(own: &'a [Judged<'_>], snapshot: &Snapshot) -> Family<'a> {
    let open = own.iter().filter_map(|(judgement, labels)| {
        Some(([labels.id()], judgement.is_open(&snapshot.poll)?))
    });
    Family::new(&catalog::EVENT_OPEN, open)
}

fn priority<'a>(own: &'a [Judged<'_>], snapshot: &'a Snapshot) -> Family<'a> {
    let identity = snapshot.identity.as_deref();
    let scale_set = identity.map_or("", |identity| &identity.scale_set);
    let vm_name = snapshot.vm_name.as_deref().unwrap_or_default();
    let maintenance = own
        .iter()
        .filter(|(judgement, _)| !judgement.tracked.shown.is_advisory());
    let priority = maintenance.map(move |(judgement, labels)| {
        let values = [
            labels.id(),
            Cow::Borrowed(&*labels.shared[1]),
            label_value(vm_name),
            label_value(scale_set),
        ];
        let owner = judgement.tracked.owner.as_deref();
        let values = values.into_iter().chain(owner.map(Cow::from));
        (values, judgement.priority())
    });
    Family::new(&catalog::EVENT_PRIORITY, priority)
}
