//! The integration tests, in one binary: the library is linked once, and the fakes are shared. Each module
//! documents what it tests. They need only the Rust toolchain; `tests/e2e` runs the exporter with other programs.

#![cfg(test)]

mod alertmanager;
mod alerts_of_several_vms;
mod approvals;
mod cli;
mod damaged_inputs;
mod day;
mod documents;
mod identity;
mod imds_approval;
mod imds_errors;
mod imds_success;
mod kills;
mod lifecycle_properties;
mod malformed;
#[cfg(target_os = "linux")]
mod memory;
mod mock_server;
mod otlp;
mod packaging;
mod polling;
#[cfg(unix)]
mod process_limits;
mod scenarios;
mod secrets;
mod simulator;
mod single_event;
#[cfg(feature = "soak")]
mod soak;
mod state;
mod support;
#[cfg(unix)]
mod textfile;
#[cfg(target_os = "linux")]
mod threads;
mod tidy;
mod unreadable;
mod watch;
mod web;
mod web_config;
