//! Resolves flags and environment variables to settings.
//!
//! All invalid values are found here, before the first poll. Each error is one line that names the flag, the value and
//! a valid alternative.

mod error;
mod exporter;
mod imds;
mod outputs;
#[cfg(any(windows, test))]
mod service;
mod simulator;

#[cfg(windows)]
pub(crate) use self::service::{check_service_paths, service_state_directory, system_program};
pub(crate) use self::simulator::{demo, demo_exporter, simulate};
pub use self::{
    error::ConfigError,
    exporter::{Config, StateStorage},
    imds::ImdsSettings,
    simulator::Simulation,
};
