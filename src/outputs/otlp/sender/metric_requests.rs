//! A push as requests of a bounded size. Pure.

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest as Request,
    metrics::v1::{Gauge, Histogram, Metric, ResourceMetrics, ScopeMetrics, Sum, metric::Data},
};
use prost::Message as _;

/// The request, or several of at most this size. A single point is in one request, whatever its size.
pub(super) fn requests(mut request: Request, max_bytes: usize) -> Vec<Request> {
    if request.encoded_len() <= max_bytes {
        return vec![request];
    }
    let Some(rest) = halve(&mut request) else {
        return vec![request];
    };
    let mut all = requests(request, max_bytes);
    all.extend(requests(rest, max_bytes));
    all
}

/// The number of data points.
pub(super) fn points(request: &Request) -> u64 {
    let scopes = request
        .resource_metrics
        .iter()
        .flat_map(|of| &of.scope_metrics);
    let metrics = scopes.flat_map(|of| &of.metrics);
    metrics.map(|metric| points_of(metric) as u64).sum()
}

fn points_of(metric: &Metric) -> usize {
    match &metric.data {
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        _ => 0,
    }
}

/// Moves half of the resources, of the metrics of the only resource, or of the points of the only metric to another
/// request. None if there is a single point.
fn halve(request: &mut Request) -> Option<Request> {
    let count = request.resource_metrics.len();
    if count > 1 {
        let resource_metrics = request.resource_metrics.split_off(count / 2);
        return Some(Request { resource_metrics });
    }
    let of_resource = request.resource_metrics.first_mut()?;
    let of_scope = of_resource.scope_metrics.first_mut()?;
    let count = of_scope.metrics.len();
    let metrics = if count > 1 {
        of_scope.metrics.split_off(count / 2)
    } else {
        let metric = of_scope.metrics.first_mut()?;
        let points = points_of(metric);
        if points < 2 {
            return None;
        }
        vec![split_off(metric, points / 2)]
    };
    Some(Request {
        resource_metrics: vec![ResourceMetrics {
            resource: of_resource.resource.clone(),
            scope_metrics: vec![ScopeMetrics {
                scope: of_scope.scope.clone(),
                metrics,
                schema_url: of_scope.schema_url.clone(),
            }],
            schema_url: of_resource.schema_url.clone(),
        }],
    })
}

/// Moves the points from this one on to another object of the same metric.
pub(super) fn split_off(metric: &mut Metric, at: usize) -> Metric {
    let data = match &mut metric.data {
        Some(Data::Gauge(gauge)) => Some(Data::Gauge(Gauge {
            data_points: gauge.data_points.split_off(at),
        })),
        Some(Data::Sum(sum)) => Some(Data::Sum(Sum {
            data_points: sum.data_points.split_off(at),
            ..*sum
        })),
        Some(Data::Histogram(histogram)) => Some(Data::Histogram(Histogram {
            data_points: histogram.data_points.split_off(at),
            ..*histogram
        })),
        // The catalog has no other kinds.
        _ => None,
    };
    Metric {
        name: metric.name.clone(),
        description: metric.description.clone(),
        unit: metric.unit.clone(),
        metadata: metric.metadata.clone(),
        data,
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::{
        common::v1::InstrumentationScope,
        metrics::v1::{HistogramDataPoint, NumberDataPoint},
        resource::v1::Resource,
    };

    use super::*;

    fn metric(name: &str, data: Data) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: "s".to_owned(),
            data: Some(data),
            ..Metric::default()
        }
    }

    /// A point that differs from all others.
    fn number(time_unix_nano: u64) -> NumberDataPoint {
        NumberDataPoint {
            time_unix_nano,
            ..NumberDataPoint::default()
        }
    }

    fn of_resource(number: u32, metrics: Vec<Metric>) -> ResourceMetrics {
        ResourceMetrics {
            resource: Some(Resource {
                dropped_attributes_count: number,
                ..Resource::default()
            }),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope::default()),
                metrics,
                ..ScopeMetrics::default()
            }],
            schema_url: "schema".to_owned(),
        }
    }

    fn request() -> Request {
        let gauge = Data::Gauge(Gauge {
            data_points: (0..5).map(number).collect(),
        });
        let sum = Data::Sum(Sum {
            data_points: (10..13).map(number).collect(),
            aggregation_temporality: 2,
            is_monotonic: true,
        });
        let histogram = Data::Histogram(Histogram {
            data_points: [20, 21]
                .map(|time_unix_nano| HistogramDataPoint {
                    time_unix_nano,
                    ..HistogramDataPoint::default()
                })
                .into(),
            aggregation_temporality: 2,
        });
        let last = Data::Gauge(Gauge {
            data_points: vec![number(30)],
        });
        let metrics = vec![
            metric("gauge", gauge),
            metric("sum", sum),
            metric("histogram", histogram),
        ];
        Request {
            resource_metrics: vec![
                of_resource(1, metrics),
                of_resource(2, vec![metric("last", last)]),
            ],
        }
    }

    #[test]
    fn requests_have_all_points_with_their_resource_scope_and_metric() {
        let whole = request();
        let singles = requests(whole.clone(), 1);
        assert_eq!(singles.len(), 11);
        assert_eq!(points(&whole), 11);
        let mut joined: Vec<ResourceMetrics> = Vec::new();
        for single in singles {
            assert_eq!(points(&single), 1);
            let [mut of_resource] = <[_; 1]>::try_from(single.resource_metrics).unwrap();
            match joined
                .last_mut()
                .filter(|it| it.resource == of_resource.resource)
            {
                None => joined.push(of_resource),
                Some(known) => {
                    assert_eq!(known.schema_url, of_resource.schema_url);
                    let scope = &mut known.scope_metrics[0];
                    let added = of_resource.scope_metrics.remove(0);
                    assert_eq!(scope.scope, added.scope);
                    let [added] = <[_; 1]>::try_from(added.metrics).unwrap();
                    join(&mut scope.metrics, added);
                }
            }
        }
        assert_eq!(joined, whole.resource_metrics);
    }

    #[test]
    fn requests_are_as_large_as_possible() {
        let whole = request();
        let size = whole.encoded_len();
        assert_eq!(requests(whole.clone(), size).len(), 1);
        let divided = requests(whole, size - 1);
        assert_eq!(divided.len(), 2);
        assert!(divided.iter().all(|it| it.encoded_len() < size));
    }

    /// Adds the point to its metric.
    fn join(metrics: &mut Vec<Metric>, added: Metric) {
        let Some(known) = metrics.last_mut().filter(|it| it.name == added.name) else {
            return metrics.push(added);
        };
        match (known.data.as_mut().unwrap(), added.data.unwrap()) {
            (Data::Gauge(known), Data::Gauge(added)) => known.data_points.extend(added.data_points),
            (Data::Sum(known), Data::Sum(added)) => known.data_points.extend(added.data_points),
            (Data::Histogram(known), Data::Histogram(added)) => {
                known.data_points.extend(added.data_points);
            }
            (known, added) => panic!("{known:?} {added:?}"),
        }
    }
}
