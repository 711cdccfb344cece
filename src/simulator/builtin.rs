//! The texts of the built-in scenarios (`scenarios/*.json`), in the order of `simulate --list`.

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("scenarios/", $name, ".json")))),*]
    };
}

/// Plays other scenarios, so no scenario can play it.
const PLAYLIST: &str = "demo";

static SCENARIOS: [(&str, &str); 24] = scenarios![
    "demo",
    "live-migration",
    "host-maintenance",
    "user-reboot",
    "user-redeploy",
    "platform-redeploy",
    "canceled-maintenance",
    "spot-preempt",
    "scale-in-terminate",
    "hardware-failure",
    "degraded-hardware",
    "zero-impact",
    "back-to-back",
    "fault-410",
    "fault-429",
    "fault-429-retry-after",
    "fault-500",
    "fault-hang",
    "fault-reset",
    "fault-garbage",
    "fault-empty-body",
    "fault-incarnation-reset",
    "fault-first-answer",
    "fault-rate-limit",
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|(name, _)| *name)
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    SCENARIOS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

pub(super) fn is_playlist(name: &str) -> bool {
    name == PLAYLIST
}
