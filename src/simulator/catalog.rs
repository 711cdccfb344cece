//! The built-in scenarios: the files of `scenarios/`, in the order in which they are listed.

use super::Scenario;

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("scenarios/", $name, ".json")))),*]
    };
}

/// What cycles through others, and so cannot be played by another one.
const PLAYLIST: &str = "demo";

/// Name and text of each.
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

/// Name and description of each built-in scenario.
pub fn catalog() -> impl Iterator<Item = (&'static str, Box<str>)> {
    names().filter_map(|name| Some((name, Scenario::named(name).ok()?.description)))
}

/// The names alone.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|(name, _)| *name)
}

/// The file of one.
pub(super) fn text(name: &str) -> Option<&'static str> {
    SCENARIOS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// Whether it plays others.
pub(super) fn is_playlist(name: &str) -> bool {
    name == PLAYLIST
}
