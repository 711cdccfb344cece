//! Series that end have a data point without a value, so that receivers do not show their last one.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::metrics::v1::{DataPointFlags, Metric, metric::Data};

use super::{
    metrics::{HOUR, find, numbers, pushing, series, until},
    sending::{event, no_event, text},
};
use crate::support::{
    FakeImds,
    collector::{Answer, FakeCollector, Received},
    exporter::Exporter,
};

const COUNTDOWN: &str = "azure_scheduled_event_not_before_countdown";

/// The series of a push, each with the instance: those with a value, and those without one.
fn pushed(received: &Received) -> [Vec<String>; 2] {
    let mut pushed = [Vec::new(), Vec::new()];
    for of in &received.metrics.resource_metrics {
        let attributes = &of.resource.as_ref().unwrap().attributes;
        let instance = text(attributes, "service.instance.id").unwrap_or_default();
        for metric in of.scope_metrics.iter().flat_map(|scope| &scope.metrics) {
            let series = series(metric).into_iter();
            let series = series.map(|series| format!("{instance} {series}"));
            pushed[usize::from(is_ended(metric))].extend(series);
        }
    }
    pushed
}

fn is_ended(metric: &Metric) -> bool {
    let flags: BTreeSet<_> = match metric.data.as_ref().unwrap() {
        Data::Histogram(it) => it.data_points.iter().map(|point| point.flags).collect(),
        _ => numbers(metric).iter().map(|point| point.flags).collect(),
    };
    assert_eq!(flags.len(), 1, "{metric:?}");
    flags.contains(&(DataPointFlags::NoRecordedValueMask as u32))
}

#[tokio::test]
async fn a_series_that_ends_has_a_point_without_value_until_a_push_with_it_was_accepted() {
    let imds = FakeImds::standing(event("Scheduled")).await;
    let collector = FakeCollector::scripted([]).await;
    let exporter = Exporter::start(pushing(&imds, &collector, &[HOUR]));
    until(&collector, "the event", |it| find(it, COUNTDOWN).is_some()).await;

    let ends = |it: &Received| pushed(it)[1].iter().any(|it| it.contains(COUNTDOWN));
    collector.now(Answer::status(503));
    imds.now(no_event());
    until(&collector, "a failed push", |it| {
        !it.is_accepted && ends(it)
    })
    .await;
    collector.now(Answer::status(200));
    let ended = until(&collector, "an accepted push", |it| {
        it.is_accepted && ends(it)
    })
    .await;
    imds.now(event("Scheduled"));
    until(&collector, "the event again", |it| {
        it.at > ended.at && find(it, COUNTDOWN).is_some()
    })
    .await;
    exporter.stop().await;

    // What the collector may know.
    let mut known = BTreeSet::new();
    for push in collector.received() {
        let [live, ended] = pushed(&push);
        let live: BTreeSet<_> = live.into_iter().collect();
        let expected: Vec<_> = known.difference(&live).cloned().collect();
        let mut ended = ended;
        ended.sort_unstable();
        assert_eq!(ended, expected);
        if push.is_accepted {
            known.clear();
        }
        known.extend(live);
    }
}
