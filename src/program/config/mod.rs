//! Resolves flags and environment variables to settings.
//!
//! All invalid values are found here, before the first poll. Each error is one line that names the flag, the value and
//! a valid alternative.

mod exporter;
mod imds;
mod outputs;
#[cfg(any(windows, test))]
mod service;
mod simulator;

use std::time::Duration;

#[cfg(windows)]
pub(crate) use self::service::{check_service_paths, service_state_directory, system_program};
pub(crate) use self::simulator::{demo, demo_exporter, simulate};
pub use self::{
    exporter::{Config, StateStorage},
    imds::ImdsSettings,
    simulator::Simulation,
};
use super::error::{CommandError, flag_error};
use crate::base::time::format_duration;

fn in_range(
    flag: &str,
    value: Duration,
    min: Duration,
    max: Duration,
) -> Result<Duration, CommandError> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    let problem = format!(
        "{} is out of range: use a duration from {} to {}",
        format_duration(value),
        format_duration(min),
        format_duration(max)
    );
    Err(flag_error(flag, problem))
}
