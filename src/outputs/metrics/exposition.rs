//! Exposition formats: OpenMetrics 1.0 and Prometheus text 0.0.4.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>,
//! <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>.

/// The samples are the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text 0.0.4: metadata of counters with the name of their samples; no units, exemplars or end marker.
    Text,
}

impl Format {
    /// Prometheus 3 rejects a scrape without a known Content-Type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}
