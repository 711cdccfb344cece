//! Exports the events of this VM to an OTLP collector, as spans and as log records, and pushes the metrics.
//!
//! Each [`Signal`] has its own sender. Spans and log records are made of the entries of the journal when
//! they are sent, and a [cursor](cursor::Cursor) for each signal says how far that was: each is exported or counted as
//! dropped, also after a kill at any instruction, and what is exported twice has the same ids. Polls and scrapes wait for
//! no collector, and no signal for the receiver of another.

pub mod attribute;
pub mod cursor;
pub mod log_record;
mod resource;
pub mod sender;
pub mod settings;
pub mod trace;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    Traces,
    Logs,
    /// No part of the journal: newer values replace older ones.
    Metrics,
}

impl Signal {
    pub const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];

    /// As in the path of its endpoint, and in the state file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }

    /// As in `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    fn variable(self) -> String {
        self.name().to_ascii_uppercase()
    }

    fn exporter_variable(self) -> String {
        format!("OTEL_{}_EXPORTER", self.variable())
    }

    /// Below the general endpoint, over HTTP.
    fn path(self) -> String {
        format!("/v1/{}", self.name())
    }

    /// Below the endpoint, over gRPC.
    fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        }
    }

    /// The name of the signal in messages, as an adjective.
    fn as_str(self) -> &'static str {
        self.name().trim_end_matches('s')
    }

    fn records(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Logs => "log records",
            Self::Metrics => "metric points",
        }
    }
}
