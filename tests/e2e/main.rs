//! End to end: the built binary beside the very programs that people run it with.
//!
//! Promises that Prometheus (an old and a new one), `VictoriaMetrics`, promtool, Chromium and Wine take
//! what the exporter serves, and the OpenTelemetry Collector what it sends. A program that is not there fails its test with the line that installs it;
//! nothing is skipped. Everything listens on loopback, on a port of its own, and ends with its test.
//! What can be tested without a foreign program belongs to the other integration binary.
#![expect(
    clippy::disallowed_methods,
    reason = "tests read clocks and the environment and write scratch files"
)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr,
    reason = "a test that cannot go on says so by failing"
)]

mod otlp;
mod page;
mod paging;
mod promtool;
mod scrapers;
mod support;
mod windows;
