//! Which points of a push have no value.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, any_value::Value},
    metrics::v1::{HistogramDataPoint, NumberDataPoint, ScopeMetrics},
    resource::v1::Resource,
};
use proptest::prelude::*;

use super::*;
use crate::{
    azure::document,
    base::time::Timestamp,
    core::{
        lifecycle::Tracker,
        snapshot::{SeriesScope, Snapshot},
    },
    outputs::metrics::{MetricsOptions, data_points},
};

/// What a push is made of, and what became of it.
#[derive(Debug, Clone)]
struct Step {
    /// Descriptions of the events, by the last digit of their ids.
    events: BTreeMap<u8, u8>,
    instance: bool,
    is_accepted: bool,
}

fn at(seconds: u32) -> Moment {
    Moment::new(
        Timestamp::from_unix_seconds(1_794_906_000 + i64::from(seconds)).unwrap(),
        Duration::from_secs(seconds.into()),
    )
}

fn snapshot(step: &Step, now: Moment) -> Arc<Snapshot> {
    let event = |(id, description): (&u8, &u8)| {
        format!(
            r#"{{"EventId":"{id}","EventType":"Freeze","Description":"{description}","Resources":["a"]}}"#
        )
    };
    let events: Vec<_> = step.events.iter().map(event).collect();
    let body = format!(
        r#"{{"DocumentIncarnation":1,"Events":[{}]}}"#,
        events.join(",")
    );
    let (document, _) = document::parse(body.as_bytes()).unwrap();
    let mut tracker = Tracker::new(Duration::ZERO);
    tracker.observe(&document, None, now);
    let name = if step.instance { "a" } else { "b" };
    Arc::new(Snapshot {
        events: tracker.events().into(),
        ..Snapshot::empty(Some(Arc::from(name)), now)
    })
}

fn attribute(name: &str, value: &str) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::StringValue(value.to_owned())),
        }),
        ..KeyValue::default()
    }
}

fn render(snapshot: &Arc<Snapshot>, at: Moment) -> ResourceMetrics {
    let options = MetricsOptions {
        scope: SeriesScope::All,
        resources: true,
        process: false,
    };
    let instance = snapshot.vm_name.as_deref().unwrap();
    ResourceMetrics {
        resource: Some(Resource {
            attributes: vec![
                attribute("service.instance.id", instance),
                // Differs from snapshot to snapshot, but does not identify the resource.
                attribute("host.type", &snapshot.as_of.wall.rfc3339_millis()),
            ],
            ..Resource::default()
        }),
        scope_metrics: vec![ScopeMetrics {
            metrics: data_points(
                snapshot,
                options,
                &Arc::default(),
                Timestamp::UNIX_EPOCH,
                at,
            )
            .unwrap(),
            ..ScopeMetrics::default()
        }],
        ..ResourceMetrics::default()
    }
}

fn push(pushes: &mut UnconfirmedPushes, step: &Step, now: Moment) -> Vec<ResourceMetrics> {
    pushes.next(render(&snapshot(step, now), now), now)
}

/// The series with values and those without one, each with the number of its points.
type Pushed = [BTreeMap<String, usize>; 2];

fn read(push: &[ResourceMetrics], now: Moment) -> Pushed {
    let mut pushed = Pushed::default();
    for of in push {
        let instance = &of.resource.as_ref().unwrap().attributes[0];
        for metric in of.scope_metrics.iter().flat_map(|of| &of.metrics) {
            let all: Vec<_> = match metric.data.as_ref().unwrap() {
                Data::Gauge(gauge) => gauge.data_points.iter().map(number).collect(),
                Data::Sum(sum) => sum.data_points.iter().map(number).collect(),
                Data::Histogram(it) => it.data_points.iter().map(histogram).collect(),
                other => panic!("{other:?}"),
            };
            let count = all.len();
            for (attributes, time, is_ended) in all {
                assert_eq!(i128::from(time), now.wall.as_unix_nanos());
                assert!(count == 1 || !is_ended, "{metric:?}");
                let series = format!("{instance:?} {} {attributes:?}", metric.name);
                *pushed[usize::from(is_ended)].entry(series).or_default() += 1;
            }
        }
    }
    pushed
}

fn number(point: &NumberDataPoint) -> (&[KeyValue], u64, bool) {
    let is_ended = point.flags == 1;
    assert_eq!(is_ended, point.value.is_none(), "{point:?}");
    assert!(!is_ended || point.exemplars.is_empty(), "{point:?}");
    (&point.attributes, point.time_unix_nano, is_ended)
}

fn histogram(point: &HistogramDataPoint) -> (&[KeyValue], u64, bool) {
    assert!(point.explicit_bounds.len() > 1 && point.sum.is_some());
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    let is_ended = point.flags == 1;
    assert!(!is_ended || point.count == 0, "{point:?}");
    (&point.attributes, point.time_unix_nano, is_ended)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let events = proptest::collection::btree_map(0..3_u8, 0..2_u8, 0..3);
    let step = (events, any::<bool>(), any::<bool>());
    let step = step.prop_map(|(events, instance, is_accepted)| Step {
        events,
        instance,
        is_accepted,
    });
    proptest::collection::vec(step, 1..10)
}

proptest! {
    #[test]
    fn a_series_that_ended_has_one_point_without_value_in_each_push_until_one_is_accepted(
        steps in steps()
    ) {
        let mut pushes = UnconfirmedPushes::default();
        // What the receiver may have.
        let mut stored = BTreeSet::new();
        for (seconds, step) in (0..).zip(&steps) {
            let now = at(seconds);
            let [live, ended] = read(&push(&mut pushes, step, now), now);
            prop_assert!(live.values().chain(ended.values()).all(|count| *count == 1));
            let live: BTreeSet<_> = live.into_keys().collect();
            let ended: BTreeSet<_> = ended.into_keys().collect();
            let expected: BTreeSet<_> = stored.difference(&live).cloned().collect();
            prop_assert_eq!(ended, expected);
            if step.is_accepted {
                pushes.confirm();
                stored.clear();
            }
            stored.extend(live);
        }
    }
}

fn step(events: &[(u8, u8)], instance: bool) -> Step {
    Step {
        events: events.iter().copied().collect(),
        instance,
        is_accepted: false,
    }
}

fn ended_of(metrics: &[ResourceMetrics], now: Moment) -> Vec<String> {
    let [_, ended] = read(metrics, now);
    ended.into_keys().collect()
}

#[test]
fn while_no_push_is_accepted_ended_series_are_kept_in_bounded_memory() {
    let mut pushes = UnconfirmedPushes::default();
    push(&mut pushes, &step(&[(0, 0)], true), at(0));
    pushes.confirm();
    let mut largest = 0;
    for number in 1..=u8::MAX {
        let events = [(number, 0), (number, 1), (number, 2)];
        let now = at(number.into());
        let ended = ended_of(
            &push(&mut pushes, &step(&events, number % 2 == 0), now),
            now,
        );
        assert!(ended.len() <= MAX_ENDED);
        let has = |id: u8| ended.iter().any(|it| it.contains(&format!("\"{id}\"")));
        assert!(has(number - 1));
        // The bound drops the series that ended first.
        assert!(has(0) || ended.len() > MAX_ENDED / 2);
        largest = largest.max(ended.len());
    }
    assert!(largest > MAX_ENDED / 2, "{largest}");
}
