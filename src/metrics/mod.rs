//! One picture as metrics.
//!
//! A projection: it takes a [`Snapshot`](crate::snapshot::Snapshot) and the moment of the scrape and gives text. Nothing is kept from one scrape to
//! the next, no series can be left over, and what is not known is absent. The encoder is `prometheus-client`'s, which
//! escapes label values; the text is OpenMetrics 1.0.

pub mod catalog;
mod collector;
pub mod exposition;
mod family;
pub mod negotiation;
mod process;

use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::{
    snapshot::{SeriesScope, Snapshot},
    time::Moment,
};

/// What is exposed beyond what always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsOptions {
    /// For which events there are series of their own.
    pub scope: SeriesScope,
    /// Whether there is a series for each VM that an event names.
    pub resources: bool,
    /// Whether this process' own figures are read; not where the same text must come out twice.
    pub process: bool,
}

/// The exposition in OpenMetrics 1.0, as of `now`.
///
/// # Errors
/// None that can happen: writing into a string does not fail.
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
