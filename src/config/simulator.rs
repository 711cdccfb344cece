//! The settings of `demo` and `simulate`.

use std::time::Duration;

use super::{
    error::{ConfigError, flag_error},
    exporter::{Config, StateStorage, listen_address, web_settings},
    imds::{ImdsSettings, vm_name},
    outputs,
};
use crate::{
    approval,
    cli::{DemoFlags, ImdsFlags, SimulateFlags, SimulatedVmFlags, WebFlags, scenario_file},
    listen::ListenAddress,
    simulator::{Scenario, SimulatorSettings, Vm},
    web_config::WebConfig,
};

#[derive(Debug)]
pub struct Simulation {
    pub(crate) listen: ListenAddress,
    pub(crate) simulator: SimulatorSettings,
}

/// The simulator of `demo`, with the address of the exporter.
pub(crate) fn demo(flags: &DemoFlags) -> Result<Simulation, ConfigError> {
    let listen = listen_address(&flags.listen_address)?;
    if !listen.is_loopback() {
        let problem = format!(
            "{:?} is not a loopback address: the demo serves on loopback only, such as 127.0.0.1:10169",
            flags.listen_address
        );
        return Err(flag_error("web.listen-address", problem));
    }
    Ok(Simulation {
        listen,
        simulator: simulator_settings(&flags.scenarios, flags.speed, &flags.vm)?,
    })
}

/// The exporter of `demo`, which polls the simulator at `imds_url`.
pub(crate) fn demo_exporter(flags: &DemoFlags, imds_url: &str) -> Result<Config, ConfigError> {
    let imds = ImdsFlags {
        url: imds_url.to_owned(),
        api_version: flags.api_version.clone(),
        timeout: Duration::from_secs(10),
        // An instance of a classic cloud service has no name in instance metadata.
        vm_name: flags.vm.name.clone(),
    };
    let web = WebFlags {
        listen_addresses: vec![flags.listen_address.clone()],
        telemetry_path: "/metrics".to_owned(),
        config_file: flags.web_config_file.clone(),
        allowed_hosts: Vec::new(),
        serving_lead_time: Duration::from_mins(5),
    };
    Ok(Config {
        listen: vec![listen_address(&flags.listen_address)?],
        web: web_settings(&web, &flags.events)?,
        web_config: web
            .config_file
            .as_deref()
            .map(WebConfig::open)
            .transpose()
            .map_err(|problem| flag_error("web.config.file", problem))?,
        imds: ImdsSettings::new(&imds)?,
        interval: Duration::from_secs(1),
        approvals: approval::ApprovalPolicy::default(),
        state: StateStorage::Disabled,
        otlp: outputs::otlp()?,
        alertmanagers: Vec::new(),
    })
}

pub(crate) fn simulate(flags: &SimulateFlags) -> Result<Simulation, ConfigError> {
    let listen = listen_address(&flags.listen_address)?;
    Ok(Simulation {
        listen,
        simulator: simulator_settings(&flags.scenarios, flags.speed, &flags.vm)?,
    })
}

fn simulator_settings(
    scenarios: &[String],
    speed: f64,
    vm: &SimulatedVmFlags,
) -> Result<SimulatorSettings, ConfigError> {
    if !(0.01..=100_000.0).contains(&speed) {
        let problem = format!("{speed} is out of range: use a factor from 0.01 to 100000");
        return Err(flag_error("speed", problem));
    }
    let load = |scenario: &String| {
        let loaded = match scenario_file(scenario) {
            Some(path) => Scenario::load(path),
            None => Scenario::named(scenario),
        };
        loaded.map_err(|problem| flag_error("scenario", problem))
    };
    let scenarios = scenarios.iter().map(load).collect::<Result<_, _>>()?;
    Ok(SimulatorSettings {
        scenarios,
        speed,
        vm: simulated_vm(vm)?,
    })
}

fn simulated_vm(flags: &SimulatedVmFlags) -> Result<Vm, ConfigError> {
    let name = vm_name(flags.name.as_deref())?;
    let scale_set = flags.scale_set.as_deref();
    Ok(Vm::configured(name, scale_set, flags.os_type))
}
