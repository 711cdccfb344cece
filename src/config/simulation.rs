//! The settings of `demo` and `simulate`.

use std::{path::Path, time::Duration};

use super::{
    Config, ConfigError, Imds, Simulation, State, listen_address, outputs, vm_name, web_settings,
    wrong,
};
use crate::{
    approval,
    cli::{DemoFlags, ImdsFlags, SimulateFlags, WebFlags, is_file},
    simulator,
};

/// The simulated Azure of `demo`, and where the exporter serves.
pub fn demo(flags: &DemoFlags) -> Result<Simulation, ConfigError> {
    let listen = listen_address(&flags.listen_address)?;
    if !listen.is_loopback() {
        let why = format!(
            "{:?} can be reached from outside: the demo serves on loopback only, such as 127.0.0.1:10169",
            flags.listen_address
        );
        return Err(wrong("web.listen-address", why));
    }
    Ok(Simulation {
        listen,
        simulator: simulation(&flags.scenarios, flags.speed, None)?,
    })
}

/// The exporter of `demo`, which asks the simulated Azure at `imds_url`.
pub fn demo_exporter(flags: &DemoFlags, imds_url: &str) -> Result<Config, ConfigError> {
    let imds = ImdsFlags {
        url: imds_url.to_owned(),
        api_version: "2020-07-01".to_owned(),
        timeout: Duration::from_secs(10),
        vm_name: None,
    };
    let web = WebFlags {
        listen_addresses: vec![flags.listen_address.clone()],
        telemetry_path: "/metrics".to_owned(),
        serving_lead_time: Duration::from_mins(5),
    };
    Ok(Config {
        listen: vec![listen_address(&flags.listen_address)?],
        web: web_settings(&web, &flags.events)?,
        imds: Imds::new(&imds)?,
        interval: Duration::from_secs(1),
        approvals: approval::ApprovalPolicy::default(),
        state: State::Forgotten,
        traces: outputs::traces()?,
        alertmanagers: Vec::new(),
    })
}

/// The simulated Azure of `simulate`.
pub fn simulate(flags: &SimulateFlags) -> Result<Simulation, ConfigError> {
    let listen = listen_address(&flags.listen_address)?;
    Ok(Simulation {
        listen,
        simulator: simulation(
            &flags.scenarios,
            flags.speed,
            vm_name(flags.vm_name.as_deref())?,
        )?,
    })
}

fn simulation(
    scenarios: &[String],
    speed: f64,
    vm_name: Option<&str>,
) -> Result<simulator::SimulatorSettings, ConfigError> {
    if !(0.01..=100_000.0).contains(&speed) {
        return Err(wrong(
            "speed",
            format!("{speed} cannot work: use a factor from 0.01 to 100000"),
        ));
    }
    let mut played = Vec::new();
    for scenario in scenarios {
        let loaded = match is_file(scenario) {
            Some(path) => simulator::Scenario::load(Path::new(&path)),
            None => simulator::Scenario::named(scenario),
        };
        played.push(loaded.map_err(|error| wrong("scenario", error.to_string()))?);
    }
    Ok(simulator::SimulatorSettings::new(played, speed, vm_name))
}
