//! The built-in scenarios (`scenarios/*.json`), in the order of `simulate --list`.

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("scenarios/", $name, ".json")))),*]
    };
}

/// Name and text of each.
pub(super) const SCENARIOS: [(&str, &str); 39] = scenarios![
    "demo",
    "microsoft-example",
    "live-migration",
    "host-maintenance",
    "user-reboot",
    "user-redeploy",
    "platform-redeploy",
    "platform-redeploy-10m",
    "canceled-maintenance",
    "spot-preempt",
    "spot-preempt-started",
    "spot-rebalance",
    "spot-vm",
    "scale-in-terminate",
    "scale-in-terminate-5m",
    "hardware-failure",
    "hardware-failure-redeploy",
    "degraded-hardware",
    "degraded-hardware-2d",
    "degraded-hardware-freeze",
    "zero-impact",
    "back-to-back",
    "late-start",
    "enabling",
    "fault-410",
    "fault-429",
    "fault-429-retry-after",
    "fault-500",
    "fault-msp-403",
    "fault-msp-421",
    "fault-msp-502",
    "fault-msp-503",
    "fault-hang",
    "fault-reset",
    "fault-garbage",
    "fault-empty-body",
    "fault-incarnation-reset",
    "fault-first-answer",
    "fault-rate-limit",
];
