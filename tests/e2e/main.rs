//! End-to-end tests: the built binary with the programs that users run it with.
//!
//! Prometheus 2 and 3, `VictoriaMetrics`, promtool, `node_exporter`, Alertmanager, the OpenTelemetry Collector, grpcio,
//! Chromium and Wine. A
//! missing program fails its test with the command that installs it; no test is skipped. Every program listens on a
//! loopback port that the kernel chooses. What needs no foreign program is tested in `tests/it`.
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
    reason = "a panic fails the test"
)]

mod alerting;
mod node_exporter;
mod otlp;
mod pages;
mod promtool;
mod scrapers;
mod scripts;
mod support;
mod web_config;
mod windows;
