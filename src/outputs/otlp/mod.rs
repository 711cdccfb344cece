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

use crate::base::label::label_values;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;

label_values! {
    /// The text is that of the path of its endpoint, and of the state file.
    pub enum Signal {
        Traces = "traces",
        Logs = "logs",
        /// No part of the journal: newer values replace older ones.
        Metrics = "metrics",
    }
}

impl Signal {
    /// As in `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    fn variable(self) -> String {
        self.as_str().to_ascii_uppercase()
    }

    fn exporter_variable(self) -> String {
        format!("OTEL_{}_EXPORTER", self.variable())
    }

    /// Below the general endpoint, over HTTP.
    fn path(self) -> String {
        format!("/v1/{}", self.as_str())
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
    fn adjective(self) -> &'static str {
        self.as_str().trim_end_matches('s')
    }

    fn records(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Logs => "log records",
            Self::Metrics => "metric points",
        }
    }
}
