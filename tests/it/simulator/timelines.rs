//! The response after each change of each built-in scenario, at speed 1.
//!
//! The goldens are `tests/simulator/NAME.txt`. `UPDATE_GOLDENS=1 cargo test` rewrites them; review the difference
//! before you commit it.

use std::{fmt::Write as _, fs, path::Path, time::Duration};

use azure_scheduled_events_exporter::{
    simulator::{
        Scenario, catalog,
        imds_api::{Action, handle},
        world::World,
    },
    time::{Moment, Timestamp},
};
use bytes::Bytes;
use hyper::Request;

use super::linux_vm;
use crate::support::golden::difference;

/// How long a repeating scenario is recorded.
const ONE_ROUND: Duration = Duration::from_mins(151);

/// Tue, 17 Nov 2026 09:00:00 GMT.
pub(crate) fn morning() -> Moment {
    Moment::new(
        Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        Duration::from_secs(1_000),
    )
}

pub(crate) fn run_scenario(scenario: Scenario, speed: f64) -> World {
    let mut world = World::new(linux_vm(None), speed, 1);
    world.start(scenario, morning()).unwrap();
    world
}

/// The response to a poll at `now`, in one line. The version is newer than the documented ones, so that the document
/// has advisories.
pub(crate) fn poll(world: &mut World, now: Moment) -> String {
    let request = Request::get("/metadata/scheduledevents?api-version=2026-05-01")
        .header("metadata", "true")
        .body(Bytes::new())
        .unwrap();
    match handle(world, &request, now) {
        Action::Hang => "no response".to_owned(),
        Action::CloseConnection => "connection closed".to_owned(),
        Action::Delay(wait) => format!("response after {wait:?}"),
        Action::Respond(response) => {
            let retry_after = response.headers().get("retry-after");
            let retry_after = retry_after
                .map(|value| format!(" Retry-After: {}", value.to_str().unwrap()))
                .unwrap_or_default();
            let body = if response.body().is_empty() {
                "(empty)".into()
            } else {
                response
                    .body()
                    .escape_ascii()
                    .to_string()
                    .replace("\\\"", "\"")
            };
            format!("{}{retry_after} {body}", response.status().as_u16())
        }
    }
}

fn timeline(scenario: Scenario) -> String {
    let end = if scenario.repeat_every.is_some() {
        ONE_ROUND
    } else {
        Duration::MAX
    };
    let mut world = run_scenario(scenario, 1.0);
    let mut text = String::new();
    let mut after = Duration::ZERO;
    loop {
        let now = morning().after(after);
        writeln!(text, "{:>7}s {}", after.as_secs(), poll(&mut world, now)).unwrap();
        let next = world.next_change().map(|at| at - morning().monotonic);
        match next.filter(|next| *next <= end) {
            Some(next) => after = next,
            None => return text,
        }
    }
}

#[test]
fn every_built_in_scenario_matches_its_golden() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator");
    let differences: Vec<String> = catalog()
        .filter_map(|(name, _)| {
            difference(
                &directory.join(format!("{name}.txt")),
                &timeline(Scenario::named(name).unwrap()),
            )
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let scenarios = catalog().count();
    assert_eq!(
        fs::read_dir(&directory).unwrap().count(),
        scenarios,
        "a golden has no scenario"
    );
}
