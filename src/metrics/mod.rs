//! Metrics of one [`Snapshot`] as OpenMetrics 1.0 text.
//!
//! No state is kept between scrapes, so no stale series can remain. Unknown values are absent. The encoder of
//! `prometheus-client` escapes label values.

pub mod catalog;
mod collector;
pub mod exposition;
mod family;
pub(crate) mod negotiation;
mod process;

use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::{
    snapshot::{SeriesScope, Snapshot},
    time::Moment,
};

/// Selects the optional series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Events with their own series.
    pub scope: SeriesScope,
    /// One series for each VM that an event names.
    pub resources: bool,
    /// `process_*` metrics. Off where the text must be reproducible.
    pub process: bool,
}

/// # Errors
/// None in practice: writing into a string does not fail.
pub fn render(
    snapshot: &Arc<Snapshot>,
    options: MetricsOptions,
    dropped_log_lines: u64,
    now: Moment,
) -> Result<String, std::fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(collector::Scrape {
        snapshot: Arc::clone(snapshot),
        options,
        dropped_log_lines,
        now,
    }));
    let mut text = String::with_capacity(16 * 1024);
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}
