//! Each built-in scenario, played at speed 1: the document, or the answer, after each change.
//!
//! The goldens are `tests/simulator/NAME.txt`. `UPDATE_GOLDENS=1 cargo test` writes them anew; read the difference before
//! it is committed.

use std::{fmt::Write as _, fs, path::Path, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    simulator::{
        Scenario, Vm, catalog,
        imds_api::{Ask, Outcome, answer},
        world::World,
    },
    time::{Moment, Timestamp},
};
use hyper::{HeaderMap, Method, header::HeaderValue};

use crate::support::golden::difference;

/// A repeating scenario is played for so long.
const ONE_ROUND: Duration = Duration::from_mins(151);

/// Tue, 17 Nov 2026 09:00:00 GMT.
pub(crate) fn morning() -> Moment {
    Moment {
        wall: Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        monotonic: Duration::from_secs(1_000),
    }
}

pub(crate) fn playing(scenario: Scenario, speed: f64) -> World {
    let mut world = World::new(Vm::new(None), speed, morning());
    world.start(Arc::new(scenario), morning()).unwrap();
    world
}

/// What a client sees at a moment, in one line.
pub(crate) fn seen(world: &mut World, now: Moment) -> String {
    let mut headers = HeaderMap::new();
    headers.insert("metadata", HeaderValue::from_static("true"));
    let ask = Ask {
        method: &Method::GET,
        path: "/metadata/scheduledevents",
        query: "api-version=2020-07-01",
        headers: &headers,
        body: &[],
    };
    match answer(world, &ask, now) {
        Outcome::Hang => "no answer".to_owned(),
        Outcome::Reset => "connection closed".to_owned(),
        Outcome::Later(wait) => format!("an answer after {wait:?}"),
        Outcome::SimulatorResponse(reply) => {
            let retry_after = reply.headers.iter().find(|(name, _)| name == "retry-after");
            let retry_after = retry_after
                .map(|(_, value)| format!(" Retry-After: {value}"))
                .unwrap_or_default();
            let body = if reply.body.is_empty() {
                "(empty)".into()
            } else {
                reply.body.escape_ascii().to_string().replace("\\\"", "\"")
            };
            format!("{}{retry_after} {body}", reply.status.as_u16())
        }
    }
}

fn timeline(scenario: Scenario) -> String {
    let end = if scenario.repeat_every.is_some() {
        ONE_ROUND
    } else {
        Duration::MAX
    };
    let mut world = playing(scenario, 1.0);
    let mut text = String::new();
    let mut after = Duration::ZERO;
    loop {
        let now = morning().after(after);
        writeln!(text, "{:>7}s {}", after.as_secs(), seen(&mut world, now)).unwrap();
        let next = world
            .next_change()
            .map(|at| at.saturating_sub(morning().monotonic));
        match next.filter(|next| *next <= end) {
            Some(next) => after = next,
            None => return text,
        }
    }
}

#[test]
fn every_built_in_scenario_plays_as_its_golden_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/simulator");
    let differences: Vec<String> = catalog()
        .filter_map(|(name, _)| {
            difference(
                &folder.join(format!("{name}.txt")),
                &timeline(Scenario::named(name).unwrap()),
            )
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    let scenarios = catalog().count();
    assert_eq!(
        fs::read_dir(&folder).unwrap().count(),
        scenarios,
        "a golden without a scenario"
    );
}
