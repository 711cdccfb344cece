//! What OpenTelemetry calls a signal: traces, logs and metrics.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    Traces,
    Logs,
    /// No part of the journal: newer values replace older ones.
    Metrics,
}

impl Signal {
    pub const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];

    /// As in `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Logs => "LOGS",
            Self::Metrics => "METRICS",
        }
    }

    /// As in the path of its endpoint, and in the state file.
    pub(crate) fn name(self) -> String {
        self.variable().to_ascii_lowercase()
    }

    /// Below the general endpoint, over HTTP.
    pub(super) fn path(self) -> String {
        format!("/v1/{}", self.name())
    }

    /// Below the endpoint, over gRPC.
    pub(super) fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }

    pub(super) fn endpoint_variable(self) -> String {
        format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", self.variable())
    }

    pub(super) fn exporter_variable(self) -> String {
        format!("OTEL_{}_EXPORTER", self.variable())
    }

    /// The name of the signal in messages, as an adjective.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "trace",
            Self::Logs => "log",
            Self::Metrics => "metric",
        }
    }

    pub(crate) fn records(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Logs => "log records",
            Self::Metrics => "metric points",
        }
    }
}
