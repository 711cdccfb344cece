//! The variables of the metrics: they are exported only on request, at an interval.

use std::time::Duration;

use reqwest::Url;

use super::{
    ExporterSettings, OtlpConfigError,
    reader::{Reader, has_otlp, is_none},
};
use crate::otlp::signal::Signal;

/// The specification's defaults
/// (<https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/#periodic-exporting-metricreader>).
const DEFAULT_INTERVAL: Duration = Duration::from_mins(1);
const DEFAULT_EXPORT_TIMEOUT: Duration = Duration::from_secs(30);
const OWN_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
const EXPORT_TIMEOUT: &str = "OTEL_METRIC_EXPORT_TIMEOUT";
/// Variables with a single supported value, which is their default.
const FIXED: [(&str, &str); 2] = [
    (
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
        "cumulative",
    ),
    (
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
        "explicit_bucket_histogram",
    ),
];

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// `None` unless `OTEL_METRICS_EXPORTER` is `otlp`: all metrics are on `/metrics` already.
    pub(super) fn metrics_endpoint(&mut self) -> Result<Option<Url>, OtlpConfigError> {
        let variable = Signal::Metrics.exporter_variable();
        let Some(exporter) = self.get(variable) else {
            if self.get(OWN_ENDPOINT).is_some() {
                let problem = format!("metrics are exported only with {variable}=otlp");
                self.ignore(OWN_ENDPOINT, &problem);
            }
            return Ok(None);
        };
        if is_none(&exporter) {
            return Ok(None);
        }
        if !has_otlp(&exporter) {
            self.ignore(variable, "the value is neither otlp nor none, none is used");
            return Ok(None);
        }
        let endpoint = self.endpoint(Signal::Metrics)?;
        if endpoint.is_none() {
            let problem = format!("set OTEL_EXPORTER_OTLP_ENDPOINT or {OWN_ENDPOINT} too");
            self.ignore(variable, &problem);
        }
        Ok(endpoint)
    }

    /// Reads what else concerns metrics, where they are exported, and limits the timeout of a request to that of an
    /// export: one request is one export.
    pub(super) fn metric_interval(&mut self, exporters: &mut [ExporterSettings]) -> Duration {
        let mut exporters = exporters.iter_mut();
        let metrics = exporters.find(|exporter| exporter.signal == Signal::Metrics);
        let Some(metrics) = metrics else {
            return DEFAULT_INTERVAL;
        };
        for (variable, supported) in FIXED {
            let is_other = |value: String| !value.eq_ignore_ascii_case(supported);
            if self.get(variable).is_some_and(is_other) {
                let problem = format!("the value is not supported, {supported} is used");
                self.ignore(variable, &problem);
            }
        }
        let timeout = self.metric_millis(EXPORT_TIMEOUT, DEFAULT_EXPORT_TIMEOUT);
        metrics.timeout = metrics.timeout.min(timeout);
        self.metric_millis(INTERVAL, DEFAULT_INTERVAL)
    }

    fn metric_millis(&mut self, name: &str, default: Duration) -> Duration {
        let given = self.get(name).map(|value| (name.to_owned(), value));
        self.millis(given, default)
    }
}
