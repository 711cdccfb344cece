//! Properties of scenarios: speed, approvals, faults, repetitions.

use std::{collections::HashMap, time::Duration};

use azure_scheduled_events_exporter::{
    api_version::ApiVersion,
    simulator::{Scenario, catalog, document, world::World},
    time::Moment,
};
use serde_json::{Value, json};

use super::{
    linux_vm,
    timelines::{morning, poll, run_scenario},
};

fn render(world: &World) -> String {
    let version = ApiVersion::parse("2020-07-01").unwrap();
    document(world.incarnation, &world.pending, &version)
}

fn status_of(line: &str) -> String {
    line.chars().take(3).collect()
}

fn second(count: u64) -> Moment {
    morning().after(Duration::from_secs(count))
}

fn builtin(name: &str) -> Scenario {
    Scenario::named(name).unwrap()
}

fn parsed(text: &str) -> Scenario {
    Scenario::parse("x", "x", text.as_bytes()).unwrap()
}

fn at(world: &mut World, seconds: f64) -> Value {
    world.advance(morning().after(Duration::from_secs_f64(seconds)));
    serde_json::from_str(&render(world)).unwrap()
}

#[test]
fn speed_shortens_waiting_but_not_what_is_announced() {
    let mut world = run_scenario(builtin("live-migration"), 60.0);
    let scheduled = at(&mut world, 0.0);
    assert_eq!(
        scheduled["Events"][0]["NotBefore"],
        "Tue, 17 Nov 2026 09:00:15 GMT"
    );
    assert_eq!(scheduled["Events"][0]["DurationInSeconds"], 5);
    assert_eq!(
        at(&mut world, 14.9)["Events"][0]["EventStatus"],
        "Scheduled"
    );
    assert_eq!(at(&mut world, 15.0)["Events"][0]["EventStatus"], "Started");
    assert_eq!(at(&mut world, 19.9)["Events"][0]["EventStatus"], "Started");
    assert_eq!(at(&mut world, 20.0)["Events"], json!([]));
}

#[test]
fn poll_once_a_second_sees_every_phase_at_any_speed() {
    let mut world = run_scenario(builtin("spot-preempt"), 100_000.0);
    let mut shown = Vec::new();
    for second in 0..6 {
        let document = at(&mut world, 0.9 + f64::from(second));
        let status = document["Events"][0]["EventStatus"].clone();
        shown.push(status.as_str().unwrap_or("gone").to_owned());
    }
    shown.dedup();
    assert_eq!(shown, ["Scheduled", "Started", "gone"]);
}

#[test]
fn canceled_event_never_reaches_its_not_before_at_any_speed() {
    let mut world = run_scenario(builtin("canceled-maintenance"), 100_000.0);
    let canceled_at = world.next_change().unwrap();
    let not_before = world.pending[0].not_before.unwrap();
    let wait = canceled_at - morning().monotonic;
    assert!(not_before > morning().after(wait).wall, "{not_before:?}");
    assert_eq!(at(&mut world, wait.as_secs_f64())["Events"], json!([]));
}

#[test]
fn phase_shorter_than_two_seconds_is_not_extended() {
    let text =
        r#"{"events": [{"event_type": "Freeze", "notice": "500ms", "started_for": "500ms"}]}"#;
    let mut world = run_scenario(parsed(text), 1.0);
    assert_eq!(at(&mut world, 0.5)["Events"][0]["EventStatus"], "Started");
    assert_eq!(at(&mut world, 1.0)["Events"], json!([]));
}

#[test]
fn sixth_request_within_a_second_exceeds_the_rate_limit() {
    let mut world = run_scenario(builtin("fault-rate-limit"), 1.0);
    let mut status = |millis| {
        let now = morning().after(Duration::from_millis(millis));
        status_of(&poll(&mut world, now))
    };
    let first: Vec<_> = (0..6).map(|number| status(number * 100)).collect();
    assert_eq!(first, ["200", "200", "200", "200", "200", "429"]);
    assert_eq!(status(1_000), "200");
}

/// Two events of one document never have the same id.
#[test]
fn given_event_id_is_used_once_in_a_document() {
    let mut world = run_scenario(builtin("microsoft-example"), 1.0);
    world
        .start(builtin("microsoft-example"), morning())
        .unwrap();
    let document = at(&mut world, 10.0);
    assert_eq!(
        document["Events"][0]["EventId"],
        "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
    );
    assert_ne!(
        document["Events"][1]["EventId"],
        document["Events"][0]["EventId"]
    );
}

#[test]
fn result_does_not_depend_on_how_often_the_world_advances() {
    let mut stepped = run_scenario(builtin("back-to-back"), 1.0);
    for second in 0..=4_600 {
        at(&mut stepped, f64::from(second));
    }
    let mut jumped = run_scenario(builtin("back-to-back"), 1.0);
    assert_eq!(at(&mut jumped, 4_600.0), at(&mut stepped, 4_600.0));
}

#[test]
fn equal_incarnation_is_equal_content_until_a_reset() {
    for (name, _) in catalog() {
        let mut world = run_scenario(builtin(name), 1.0);
        let mut known: HashMap<u64, String> = HashMap::new();
        for minute in 0..160 {
            at(&mut world, f64::from(minute) * 60.0);
            let text = render(&world);
            let first = known
                .entry(world.incarnation)
                .or_insert_with(|| text.clone());
            assert_eq!(*first, text, "{name} at minute {minute}");
        }
    }
}

/// A rise by more than one would mean a document in between.
#[test]
fn changes_at_one_time_raise_the_incarnation_by_one() {
    let event = r#"{"at": "10s", "event_type": "Reboot", "started_for": "10s"}"#;
    let mut world = run_scenario(parsed(&format!(r#"{{"events": [{event}, {event}]}}"#)), 1.0);
    let mut shown = |seconds| {
        let document = at(&mut world, seconds);
        let events = document["Events"].as_array().unwrap().len();
        (document["DocumentIncarnation"].as_u64().unwrap(), events)
    };
    assert_eq!([0.0, 10.0, 20.0].map(&mut shown), [(1, 0), (2, 2), (3, 0)]);
}

#[test]
fn incarnation_reset_keeps_the_event() {
    let mut world = run_scenario(builtin("live-migration"), 1.0);
    let before = at(&mut world, 10.0);
    world
        .start(builtin("fault-incarnation-reset"), second(20))
        .unwrap();
    let after = at(&mut world, 20.0);
    assert_eq!(
        (
            &before["DocumentIncarnation"],
            &after["DocumentIncarnation"]
        ),
        (&2.into(), &1.into())
    );
    assert_eq!(before["Events"], after["Events"]);
}

#[test]
fn each_round_of_the_demo_has_new_event_ids() {
    let mut world = run_scenario(builtin("demo"), 60.0);
    let first = at(&mut world, 6.0)["Events"][0]["EventId"].clone();
    let second = at(&mut world, 156.0)["Events"][0]["EventId"].clone();
    assert!(first.is_string() && second.is_string());
    assert_ne!(first, second);
}

#[test]
fn demo_skips_missed_rounds_after_a_month_without_requests() {
    let mut world = run_scenario(builtin("demo"), 100_000.0);
    let month = Duration::from_hours(30 * 24);
    world.advance(morning().after(month));
    assert!(world.next_change().unwrap() > morning().after(month).monotonic);
    assert!(world.runs[0].cycle < 10);
}

#[test]
fn event_ids_depend_on_the_seed() {
    let id = |seed: u64| {
        let mut world = World::new(linux_vm(None), 1.0, seed);
        let scenario = builtin("live-migration");
        world.start(scenario, morning()).unwrap();
        world.pending[0].id.clone()
    };
    assert_ne!(id(0), id(1));
    assert_eq!(id(0), id(0));
}

#[test]
fn latest_of_several_faults_is_active_until_its_end_in_each_round() {
    for (text, expected) in [
        (
            r#"{"faults": [{"fault": "gone", "for": "1m"}, {"at": "10s", "fault": "server-error", "for": "10s"}]}"#,
            [(0, "410"), (10, "500"), (20, "410"), (60, "200")],
        ),
        (
            r#"{"repeat_every": "1m", "faults": [{"at": "10s", "fault": "gone", "for": "10s"}]}"#,
            [(15, "410"), (59, "200"), (75, "410"), (80, "200")],
        ),
    ] {
        let mut world = run_scenario(parsed(text), 1.0);
        for (seconds, status) in expected {
            let now = second(seconds);
            assert_eq!(status_of(&poll(&mut world, now)), status, "{seconds} s");
        }
    }
}

#[test]
fn clear_ends_everything_with_a_new_incarnation() {
    let mut world = run_scenario(builtin("demo"), 1.0);
    let before = at(&mut world, 400.0)["DocumentIncarnation"]
        .as_u64()
        .unwrap();
    world.clear(second(401));
    let document = at(&mut world, 100_000.0);
    assert_eq!(document["Events"], json!([]));
    assert_eq!(document["DocumentIncarnation"], before + 1);
    assert!(world.runs.is_empty() && world.next_change().is_none());
}

#[test]
fn too_many_scenarios_at_once_are_refused() {
    let mut world = run_scenario(builtin("demo"), 1.0);
    let refused = (0..200)
        .filter(|_| world.start(builtin("demo"), morning()).is_err())
        .count();
    assert_eq!(refused, 101);
}

#[test]
fn approved_event_starts_after_the_time_in_its_scenario() {
    let mut world = run_scenario(builtin("late-start"), 1.0);
    let id = world.pending[0].id.clone();
    let not_before = at(&mut world, 0.0)["Events"][0]["NotBefore"].clone();
    world
        .approve(std::slice::from_ref(&id), second(300))
        .unwrap();
    world.approve(&[id], second(360)).unwrap();
    let approved = at(&mut world, 479.0);
    assert_eq!(approved["Events"][0]["EventStatus"], "Scheduled");
    assert_eq!(approved["Events"][0]["NotBefore"], not_before);
    assert_eq!(approved["DocumentIncarnation"], 2);
    let started = at(&mut world, 480.0);
    assert_eq!(started["Events"][0]["EventStatus"], "Started");
    assert_eq!(started["DocumentIncarnation"], 3);
}

#[test]
fn approval_with_a_delayed_start_does_not_prevent_a_cancellation() {
    let text = r#"{"events": [{"event_type": "Freeze", "notice": "15m", "canceled_after": "8m", "starts_after_approval": "3m"}]}"#;
    for (approved, gone_at) in [(6, 480.0), (2, 900.0)] {
        let mut world = run_scenario(parsed(text), 1.0);
        let id = world.pending[0].id.clone();
        world.approve(&[id], second(approved * 60)).unwrap();
        let before = at(&mut world, gone_at - 1.0)["Events"].clone();
        assert_eq!(
            before.as_array().unwrap().len(),
            1,
            "approved at {approved} min"
        );
        assert_eq!(at(&mut world, gone_at)["Events"], json!([]));
    }
}

#[test]
fn advisory_never_starts_and_its_approval_has_no_effect() {
    let text = r#"{"events": [{"event_type": "SpotRebalanceRecommendation", "notice": "5m", "advisory_for": "9m"}]}"#;
    let mut world = run_scenario(parsed(text), 1.0);
    let id = world.pending[0].id.clone();
    let first = poll(&mut world, morning());
    assert!(
        first.contains("\"NotBefore\":\"Tue, 17 Nov 2026 09:05:00 GMT\""),
        "{first}"
    );
    world.approve(&[id], morning()).unwrap();
    for seconds in [0, 300, 539] {
        let now = second(seconds);
        assert_eq!(poll(&mut world, now), first, "after {seconds} s");
    }
    let end = poll(&mut world, second(540));
    assert!(end.contains("\"Events\":[]"), "{end}");
}

#[test]
fn enabling_starts_with_the_first_request_and_follows_the_speed() {
    let mut world = run_scenario(builtin("enabling"), 60.0);
    let mut has_event = |seconds: f64| {
        let now = morning().after(Duration::from_secs_f64(seconds));
        poll(&mut world, now).contains("Freeze")
    };
    // The first request comes after 3 s, and 4 min are 4 s at this speed.
    assert_eq!(
        [has_event(3.0), has_event(6.9), has_event(7.0)],
        [false, false, true]
    );
}

#[test]
fn slow_first_answer_in_the_middle_of_a_run_has_the_events_and_the_first_incarnation() {
    let mut world = run_scenario(builtin("live-migration"), 1.0);
    let at = |seconds: u64| second(seconds);
    world
        .start(builtin("canceled-maintenance"), at(10))
        .unwrap();
    let before = poll(&mut world, at(60));
    assert!(before.contains("\"DocumentIncarnation\":3"), "{before}");
    world.start(builtin("fault-first-answer"), at(60)).unwrap();
    assert_eq!(poll(&mut world, at(60)), "response after 120s");
    assert_eq!(poll(&mut world, at(179)), "response after 1s");
    let after = poll(&mut world, at(180));
    assert_eq!(
        after,
        before.replace("\"DocumentIncarnation\":3", "\"DocumentIncarnation\":1")
    );
    // The other scenarios go on.
    assert!(poll(&mut world, at(900)).contains("Started"));
}
