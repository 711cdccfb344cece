//! The settings of `demo` and `simulate`.

use std::path::Path;

use super::{
    super::error::{CommandError, flag_error},
    exporter::{Config, StateStorage, listen_address},
    imds::vm_name,
};
use crate::{
    http::listen::ListenAddress,
    program::cli::{DemoFlags, RunFlags, SimulatorFlags},
    simulator::{Scenario, SimulatorSettings, Vm},
};

#[derive(Debug)]
pub struct Simulation {
    pub(crate) listen: ListenAddress,
    pub(crate) simulator: SimulatorSettings,
}

/// The simulator of `demo`, with the address of the exporter.
pub(crate) fn demo(flags: &DemoFlags) -> Result<Simulation, CommandError> {
    let simulation = simulate(&flags.listen_address, &flags.simulator)?;
    if !simulation.listen.is_loopback() {
        let problem = format!(
            "{:?} is not a loopback address: the demo serves on loopback only, such as 127.0.0.1:10169",
            flags.listen_address
        );
        return Err(flag_error("web.listen-address", problem));
    }
    Ok(simulation)
}

/// The exporter of `demo`, which polls the simulator at `imds_url`. What has no flag of `demo` is as in `exporter`.
pub(crate) fn demo_exporter(
    flags: DemoFlags,
    mut exporter: RunFlags,
    imds_url: String,
) -> Result<Config, CommandError> {
    exporter.web.listen_addresses = vec![flags.listen_address];
    exporter.web.config_file = flags.web_config_file;
    let simulator_url = format!("{imds_url}/").into_boxed_str();
    exporter.imds.url = imds_url;
    exporter.imds.api_version = flags.api_version;
    exporter.events = flags.events;
    exporter.alertmanager = flags.alertmanager;
    exporter.state_directory = None;
    let mut config = Config::new(&exporter)?;
    config.state = StateStorage::Disabled;
    config.web.simulator_url = Some(simulator_url);
    Ok(config)
}

pub(crate) fn simulate(address: &str, flags: &SimulatorFlags) -> Result<Simulation, CommandError> {
    let listen = listen_address(address)?;
    if !(0.01..=100_000.0).contains(&flags.speed) {
        let problem = format!(
            "{} is out of range: use a factor from 0.01 to 100000",
            flags.speed
        );
        return Err(flag_error("speed", problem));
    }
    let load = |scenario: &String| {
        let loaded = if scenario.contains(['/', '\\', '.']) {
            Scenario::load(Path::new(scenario))
        } else {
            Scenario::named(scenario)
        };
        loaded.map_err(|problem| flag_error("scenario", problem))
    };
    let (name, scale_set) = (vm_name(flags.vm_name.as_deref())?, &flags.scale_set);
    Ok(Simulation {
        listen,
        simulator: SimulatorSettings {
            scenarios: flags.scenarios.iter().map(load).collect::<Result<_, _>>()?,
            speed: flags.speed,
            vm: Vm::configured(name, scale_set.as_deref(), flags.os_type),
        },
    })
}
