//! The integration tests, in one binary: the library is linked once, and the fakes are shared. Each module
//! documents what it tests. They need only the Rust toolchain; `tests/e2e` runs the exporter with other programs.

#[cfg(test)]
mod support;

#[cfg(test)]
mod advisories;
#[cfg(test)]
mod alertmanager;
#[cfg(test)]
mod alerts_of_several_vms;
#[cfg(test)]
mod approvals;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod damaged_inputs;
#[cfg(test)]
mod day;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod freshness;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod imds_approval;
#[cfg(test)]
mod imds_errors;
#[cfg(test)]
mod imds_success;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod lifecycle_properties;
#[cfg(test)]
mod malformed;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod memory;
#[cfg(test)]
mod mock_server;
#[cfg(test)]
mod otlp;
#[cfg(test)]
mod packaging;
#[cfg(test)]
mod polling;
#[cfg(test)]
#[cfg(unix)]
mod process_limits;
#[cfg(test)]
#[cfg(test)]
mod restored_owner;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod simulator;
#[cfg(test)]
mod single_event;
#[cfg(test)]
#[cfg(feature = "soak")]
mod soak;
#[cfg(test)]
mod state;
#[cfg(test)]
#[cfg(unix)]
mod textfile;
#[cfg(test)]
#[cfg(target_os = "linux")]
mod threads;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod unreadable;
#[cfg(test)]
mod watch;
#[cfg(test)]
mod web;
#[cfg(test)]
mod web_config;
