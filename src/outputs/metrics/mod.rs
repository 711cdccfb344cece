//! Metrics of one [`Snapshot`], as OpenMetrics 1.0, as Prometheus text 0.0.4, and for the meters of OpenTelemetry.
//!
//! No state is kept between scrapes, so no stale series can remain. Unknown values are absent. Label values are
//! escaped by the encoder of `prometheus-client`.

pub mod catalog;
mod collector;
pub mod exposition;
pub(super) mod family;
mod process;

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, prometheus_text, text},
    registry::Registry,
};

use self::{collector::Scrape, exposition::Format, family::Family};
use crate::{
    base::time::Moment,
    core::snapshot::{SeriesScope, Snapshot},
    outputs::output_counters::OutputCounters,
};

/// Selects the optional series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Events with their own series.
    pub scope: SeriesScope,
    /// One series for each VM that an event names.
    pub resources: bool,
    /// What describes the process: `process_*` and the build. Off where the text must be reproducible, and where another
    /// exporter has its own `process_*`.
    pub process: bool,
}

/// # Errors
/// None in practice: writing into a string does not fail.
pub fn render(
    snapshot: &Arc<Snapshot>,
    format: Format,
    options: MetricsOptions,
    outputs: &Arc<OutputCounters>,
    now: Moment,
) -> Result<String, fmt::Error> {
    let scrape = Scrape {
        snapshot: Arc::clone(snapshot),
        options,
        outputs: Arc::clone(outputs),
        now,
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut body = String::with_capacity(16 * 1024);
    match format {
        Format::OpenMetrics => text::encode(&mut body, &registry)?,
        Format::Text => prometheus_text::encode(&mut body, &registry)?,
    }
    Ok(body)
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.write(&mut |family| family.encode_text(&mut encoder))
    }
}

/// Gives the families of [`render`] to `visit`, without that of the identity: receivers of OTLP make `target_info` of the
/// resource.
pub(super) fn visit(
    snapshot: &Arc<Snapshot>,
    options: MetricsOptions,
    outputs: &Arc<OutputCounters>,
    now: Moment,
    mut visit: impl FnMut(&Family<'_>),
) {
    let scrape = Scrape {
        snapshot: Arc::clone(snapshot),
        options,
        outputs: Arc::clone(outputs),
        now,
    };
    let visited = scrape.write(&mut |family| {
        if family.metric.name != catalog::VM_INFO.name {
            visit(&family);
        }
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
}
