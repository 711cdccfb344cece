//! Resolves flags and environment variables to settings.
//!
//! All invalid values are found here, before the first poll. Each error is one line that names the flag, the value and
//! a valid alternative.

mod error;
mod exporter;
mod imds;
mod outputs;
mod simulator;

pub(crate) use self::simulator::{demo, demo_exporter, simulate};
pub use self::{
    error::ConfigError,
    exporter::{Config, StateStorage},
    imds::ImdsSettings,
    simulator::Simulation,
};
