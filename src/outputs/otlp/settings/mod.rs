//! OpenTelemetry's environment variables for exporting traces, logs and metrics. Pure: the environment is an argument.
//!
//! The rules are those of the specification
//! (<https://opentelemetry.io/docs/specs/otel/protocol/exporter/>,
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>): an invalid value is logged and
//! ignored. What would send to the wrong place, without credentials, or in a form that the receiver does not take, is
//! an error: endpoint, protocol, headers, client certificate and temporality.

mod variables;

use std::time::Duration;

use opentelemetry_sdk::metrics::Temporality;
use reqwest::{Url, header::HeaderMap};

use self::variables::Variables;
use super::signal::Signal;
use crate::http::client::{tls::TlsFiles, url};

/// What is exported, and where to.
#[derive(Debug, Clone)]
pub struct OtlpSettings {
    /// In the order of [`Signal::ALL`]; none if there are only messages.
    pub exporters: Vec<ExporterSettings>,
    /// `OTEL_METRIC_EXPORT_INTERVAL`: between two pushes of the metrics while no event changes.
    pub metric_interval: Duration,
    /// Whether counters and histograms count everything since the start of the process, or what is new since the last push.
    pub temporality: Temporality,
    /// `OTEL_SERVICE_NAME`.
    pub service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`.
    pub resource_attributes: Vec<(String, String)>,
    /// Messages about variables that are set and ignored.
    pub ignored: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// `http/protobuf`
    #[default]
    Http,
    Grpc,
}

/// The settings of one signal.
#[derive(Debug, Clone)]
pub struct ExporterSettings {
    pub signal: Signal,
    pub protocol: Protocol,
    /// Over HTTP with the path of the signal, over gRPC without the path of the service.
    pub endpoint: Url,
    /// The values are marked sensitive and do not appear in the log.
    pub headers: HeaderMap,
    /// For one request, from the connection to the last byte of the response.
    pub timeout: Duration,
    pub gzip: bool,
    pub files: TlsFiles,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OtlpConfigError(String);

impl OtlpSettings {
    /// `None` if nothing is exported and no variable is ignored.
    ///
    /// # Errors
    /// When a variable of a signal that is exported is invalid, and the export could not work without it.
    pub fn from_env(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, OtlpConfigError> {
        let mut variables = Variables::new(lookup);
        if variables.is_disabled() {
            return Ok(None);
        }
        let mut exporters = Vec::new();
        for signal in Signal::ALL {
            exporters.extend(variables.exporter(signal)?);
        }
        let mut metrics = exporters.iter_mut();
        let metrics = metrics.find(|exporter| exporter.signal == Signal::Metrics);
        let temporality = match metrics {
            Some(_) => variables.temporality()?,
            None => Temporality::default(),
        };
        let metric_interval = variables.metric_interval(metrics);
        if exporters.is_empty() && variables.ignored.is_empty() {
            return Ok(None);
        }
        let resource_attributes = variables.resource_attributes();
        let service_name = variables.get("OTEL_SERVICE_NAME");
        Ok(Some(Self {
            exporters,
            metric_interval,
            temporality,
            service_name,
            resource_attributes,
            ignored: variables.ignored,
        }))
    }

    /// `None` if the signal is not exported.
    pub fn exporter(&self, signal: Signal) -> Option<&ExporterSettings> {
        let mut exporters = self.exporters.iter();
        exporters.find(|exporter| exporter.signal == signal)
    }
}

impl ExporterSettings {
    /// For messages, without secrets.
    pub(crate) fn shown_endpoint(&self) -> String {
        let path = self.signal.path();
        let has_path = self.endpoint.path().ends_with(&path);
        url::shown(self.endpoint.as_str()) + if has_path { &path } else { "" }
    }
}

#[cfg(test)]
mod tests;
