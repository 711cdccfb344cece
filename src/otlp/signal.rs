//! What OpenTelemetry calls a signal: traces and logs.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    Traces,
    Logs,
}

impl Signal {
    pub const ALL: [Self; 2] = [Self::Traces, Self::Logs];

    /// As in `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Logs => "LOGS",
        }
    }

    /// Below the general endpoint (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-request>).
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Logs => "/v1/logs",
        }
    }

    /// The variable that selects the exporter.
    pub(super) fn exporter_variable(self) -> &'static str {
        match self {
            Self::Traces => "OTEL_TRACES_EXPORTER",
            Self::Logs => "OTEL_LOGS_EXPORTER",
        }
    }

    /// The name of the signal in messages, as an adjective.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "trace",
            Self::Logs => "log",
        }
    }

    /// What is exported.
    pub(crate) fn records(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Logs => "log records",
        }
    }

    /// One of [`Self::records`].
    pub(crate) fn record(self) -> &'static str {
        match self {
            Self::Traces => "span",
            Self::Logs => "log record",
        }
    }

    /// The directory of unsent records in the state directory.
    pub(crate) fn spool_directory(self) -> &'static str {
        match self {
            Self::Traces => "spool",
            Self::Logs => "spool-logs",
        }
    }
}
