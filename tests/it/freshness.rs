//! What an old document and an empty one mean: the minutes after Scheduled Events was enabled, and the time after a
//! restart without an answer of IMDS.

use std::time::Duration;

use azure_scheduled_events_exporter::{approval::ApprovalPolicy, time::Timestamp};
use serde_json::{Value, json};

use crate::support::simulated_vm::{ID, SimulatedVm, at, restart};

const WARMING_UP: &str = "azure_scheduled_events_warming_up";
const LAST_SUCCESS: &str = "azure_scheduled_events_last_success_timestamp_seconds";
const INCARNATION: &str = "azure_scheduled_events_document_incarnation";
const PENDING: &str = r#"azure_scheduled_events_pending{event_type="Reboot",scope="self"}"#;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: u64 = 24 * 60 * 60;

fn vm() -> SimulatedVm {
    SimulatedVm::new(ApprovalPolicy::default())
}

/// A VM whose feature was enabled long ago.
fn warm_vm() -> SimulatedVm {
    let mut vm = vm();
    vm.poll(&[]);
    vm.wait_until(600);
    vm.poll(&[]);
    vm
}

/// The value of the metric; page and JSON must agree with it.
fn is_warming_up(vm: &SimulatedVm) -> bool {
    let is_active = vm.metrics().value(WARMING_UP) == Some(1.0);
    assert_eq!(vm.whole_json()["warming_up"], is_active);
    let page = vm.page();
    assert_eq!(page.contains("No events scheduled"), !is_active, "{page}");
    assert_eq!(page.contains("state clear"), !is_active, "{page}");
    is_active
}

fn is_warming_up_beside_an_event(vm: &SimulatedVm) -> bool {
    vm.metrics().value(WARMING_UP) == Some(1.0)
}

/// The first minutes last until this second.
fn assert_warming_up_until(vm: &mut SimulatedVm, end: u64) {
    vm.wait_until(end - 1);
    vm.poll(&[]);
    assert!(is_warming_up(vm));
    vm.wait_until(end);
    assert!(!is_warming_up(vm), "without another poll");
}

/// How many times the log says that the phase begins.
fn begun(vm: &SimulatedVm) -> usize {
    let lines = vm.log.iter();
    lines
        .filter(|line| line.message.starts_with("warming up"))
        .count()
}

#[test]
fn for_five_minutes_after_the_first_success_an_empty_document_is_no_all_clear() {
    let mut vm = vm();
    assert_eq!(vm.metrics().value(WARMING_UP), Some(1.0), "before it");
    assert_eq!(vm.whole_json()["warming_up_until"], Value::Null);
    vm.poll(&[]);
    assert!(is_warming_up(&vm));
    let page = vm.page();
    assert!(
        page.contains("No events yet") && page.contains("may take until 09:05 UTC to appear"),
        "{page}"
    );
    let until = at(300).rfc3339_millis();
    assert_eq!(vm.whole_json()["warming_up_until"], until);
    assert_warming_up_until(&mut vm, 300);
    assert_eq!(vm.whole_json()["warming_up_until"], Value::Null);
    assert_eq!(begun(&vm), 1);
}

#[test]
fn an_event_is_shown_at_once_while_others_may_still_appear() {
    let mut vm = vm();
    vm.poll(&[restart(&json!({}))]);
    let page = vm.page();
    assert!(page.contains("Earliest start in"), "{page}");
    assert_eq!(vm.metrics().value(WARMING_UP), Some(1.0));
    assert_eq!(vm.metrics().value(PENDING), Some(1.0));
}

#[test]
fn a_step_of_the_wall_clock_neither_shortens_nor_prolongs_the_five_minutes() {
    for wall in [at(3_000), Timestamp::UNIX_EPOCH] {
        let mut vm = vm();
        vm.poll(&[]);
        vm.set_wall_clock(wall);
        assert_warming_up_until(&mut vm, 300);
    }
}

#[test]
fn the_five_minutes_go_on_after_a_restart() {
    let mut vm = vm();
    vm.poll(&[]);
    vm.wait_until(100);
    vm.poll(&[]);
    vm.restart_process(MINUTE);
    vm.poll(&[]);
    assert!(is_warming_up(&vm));
    assert_warming_up_until(&mut vm, 140);
    assert_eq!(begun(&vm), 1);
    vm.restart_process(MINUTE);
    vm.poll(&[]);
    assert!(!is_warming_up(&vm));
}

#[test]
fn after_a_restart_with_the_clock_set_back_the_rest_is_at_most_five_minutes() {
    let mut vm = vm();
    vm.poll(&[]);
    vm.set_wall_clock(at(0).before(HOUR));
    vm.restart_process(Duration::ZERO);
    vm.poll(&[]);
    assert_warming_up_until(&mut vm, 300);
}

#[test]
fn a_restart_enables_nothing_unless_the_last_document_is_a_day_old() {
    for (away, is_enabling) in [(23 * HOUR, false), (24 * HOUR, true)] {
        let mut vm = warm_vm();
        vm.restart_process(away);
        let before = vm.metrics().value(WARMING_UP);
        assert_eq!(before, Some(f64::from(u8::from(is_enabling))), "{away:?}");
        vm.poll(&[]);
        assert_eq!(is_warming_up(&vm), is_enabling, "{away:?}");
        vm.wait_until(300);
        vm.poll(&[]);
        assert!(!is_warming_up(&vm), "{away:?}");
    }
}

#[test]
fn the_first_success_after_a_day_without_one_enables_the_feature_again() {
    for (away, is_enabling) in [(DAY - 1, false), (DAY, true)] {
        let mut vm = warm_vm();
        for seconds in [700, 700 + away / 2, 599 + away] {
            vm.wait_until(seconds);
            vm.failed_poll();
        }
        vm.wait_until(600 + away);
        vm.poll(&[]);
        assert_eq!(is_warming_up(&vm), is_enabling, "{away}");
        assert_eq!(begun(&vm), 1 + usize::from(is_enabling), "{away}");
    }
}

#[test]
fn a_falling_incarnation_enables_the_feature_again() {
    for (incarnations, is_enabling) in [
        ([json!(7), json!(1)], true),
        ([json!(7), json!(7)], false),
        ([json!(7), json!(9)], false),
        ([json!(7), Value::Null], false),
        ([Value::Null, json!(1)], false),
    ] {
        for restarts in [false, true] {
            let [before, after] = &incarnations;
            let mut vm = vm();
            vm.poll_incarnation(before, &[]);
            vm.wait_until(600);
            vm.poll_incarnation(before, &[]);
            if restarts {
                vm.restart_process(MINUTE);
            }
            vm.poll_incarnation(after, &[]);
            assert_eq!(is_warming_up(&vm), is_enabling, "{before} {after}");
        }
    }
}

#[test]
fn the_last_success_survives_a_restart() {
    let mut vm = warm_vm();
    vm.restart_process(30 * MINUTE);
    let metrics = vm.metrics();
    assert_eq!(metrics.value(LAST_SUCCESS), Some(at(600).as_unix_seconds()));
    assert!(!metrics.is_up());
    assert_eq!(vm.get("/-/ready").0, 503, "no poll of this process");
    let json = vm.whole_json();
    assert_eq!(json["health"]["last_success_at"], at(600).rfc3339_millis());
    assert_eq!(json["document_age_seconds"], 1_800.0);
    assert_eq!(json["stale"], false);
    let page = vm.page();
    assert!(
        page.contains(">30m</time> ago, before the restart of the exporter; not confirmed since"),
        "{page}"
    );
    vm.wait_until(10);
    vm.poll(&[]);
    assert_eq!(vm.whole_json()["document_age_seconds"], 0.0);
}

#[test]
fn the_incarnation_of_the_document_survives_a_restart_without_an_answer() {
    let mut vm = vm();
    vm.poll_incarnation(&json!(7), &[restart(&json!({}))]);
    vm.restart_process(MINUTE);
    vm.failed_poll();
    assert_eq!(vm.whole_json()["document_incarnation"], 7);
    assert_eq!(vm.metrics().value(INCARNATION), Some(7.0));
    vm.poll_incarnation(&json!(8), &[]);
    assert_eq!(vm.whole_json()["document_incarnation"], 8);
}

#[test]
fn a_document_older_than_an_hour_is_unknown_after_a_restart_and_not_zero_pending_events() {
    for (away, set_back, is_known) in [
        (59 * MINUTE, Duration::ZERO, true),
        (61 * MINUTE, Duration::ZERO, false),
        // The age is at least the step of the clock.
        (Duration::ZERO, 2 * HOUR, false),
    ] {
        let mut vm = warm_vm();
        vm.set_wall_clock(at(600).before(set_back));
        vm.restart_process(away);
        for has_failed in [false, true] {
            if has_failed {
                vm.failed_poll();
            }
            let pending = vm.metrics().value(PENDING);
            assert_eq!(pending, is_known.then_some(0.0), "{away:?}");
            assert_eq!(vm.whole_json()["stale"], !is_known);
            let page = vm.page();
            assert_eq!(page.contains("Events unknown"), !is_known, "{page}");
            assert!(!page.contains("state clear"), "{page}");
        }
        vm.poll(&[]);
        assert_eq!(vm.metrics().value(PENDING), Some(0.0));
        assert_eq!(vm.whole_json()["stale"], false);
    }
}

#[test]
fn a_known_event_is_shown_with_the_age_of_its_document() {
    let mut vm = vm();
    vm.poll(&[restart(&json!({}))]);
    vm.restart_process(2 * HOUR);
    let page = vm.page();
    assert!(page.contains("The events shown are out of date"), "{page}");
    assert!(page.contains(">2h</time> ago"), "{page}");
    assert!(page.contains("data-event-id"), "{page}");
    let metrics = vm.metrics();
    assert_eq!(metrics.value(PENDING), None);
    assert!(metrics.0.contains("azure_scheduled_event_info{"));
}

/// `--imds.timeout=2m`: the poll hangs, and has not failed yet.
#[test]
fn half_a_minute_without_the_next_document_is_no_all_clear() {
    let mut vm = warm_vm();
    vm.wait_until(631);
    assert!(vm.metrics().is_up());
    assert!(vm.page().contains("No events scheduled"), "{}", vm.page());
    vm.wait_until(632);
    assert!(!vm.metrics().is_up());
    assert_eq!(vm.whole_json()["health"]["up"], false);
    let page = vm.page();
    assert!(!page.contains("No events scheduled"), "{page}");
    assert!(page.contains("The events shown are out of date"), "{page}");
    vm.poll(&[]);
    assert!(vm.metrics().is_up());
}

#[test]
fn a_suspended_vm_does_not_know_what_happened_meanwhile() {
    let away = 25 * HOUR;
    let mut vm = warm_vm();
    let event = restart(&json!({"NotBefore": at(4 * DAY).rfc1123()}));
    vm.poll(std::slice::from_ref(&event));
    vm.suspend(away);
    assert_eq!(vm.whole_json()["document_age_seconds"], away.as_secs_f64());
    assert_eq!(vm.whole_json()["stale"], true);
    assert_eq!(vm.metrics().value(PENDING), None);
    assert!(!vm.metrics().is_up());
    vm.poll(&[]);
    assert!(is_warming_up_beside_an_event(&vm), "disabled after a day");
    assert_eq!(
        vm.metrics().value(PENDING),
        Some(1.0),
        "it may not have appeared yet"
    );
    vm.wait_until(600 + away.as_secs() + 300);
    vm.poll(&[]);
    assert_eq!(vm.metrics().value(PENDING), Some(0.0));
    assert_eq!(vm.json()["outcome"], "unknown");
}

/// Its clocks stop in the pause, and no tick is due when the answer comes.
#[test]
fn a_pause_that_ends_with_the_document_makes_the_outcome_unknown() {
    let outcome = |not_before: u64, late: u64| {
        let mut vm = warm_vm();
        vm.poll(&[restart(&json!({"NotBefore": at(not_before).rfc1123()}))]);
        vm.tick();
        vm.set_wall_clock(at(608));
        vm.late = Duration::from_secs(late);
        vm.poll(&[]);
        vm.json()["outcome"].clone()
    };
    assert_eq!(outcome(800, 0), "unknown");
    assert_eq!(outcome(4 * DAY, 8), "unknown");
    assert_eq!(outcome(4 * DAY, 0), "cancelled", "the request was slow");
}

/// The feature was disabled, and known events take some time to appear again.
#[test]
fn the_empty_documents_of_the_first_minutes_end_only_what_may_have_started() {
    let document = [
        restart(&json!({"NotBefore": at(4 * DAY).rfc1123()})),
        restart(&json!({"EventId": "B", "EventStatus": "Started", "NotBefore": ""})),
        restart(&json!({"EventId": "C", "NotBefore": at(600).rfc1123()})),
    ];
    for restarts in [false, true] {
        let mut vm = vm();
        vm.poll_incarnation(&json!(40), &[]);
        vm.wait_until(590);
        vm.poll_incarnation(&json!(40), &document);
        if restarts {
            vm.restart_process(10 * SECOND);
        } else {
            vm.wait_until(600);
        }
        vm.poll_incarnation(&json!(1), &[]);
        let pending = |vm: &SimulatedVm| {
            let json = vm.whole_json();
            let events = json["events"].as_array().unwrap().clone();
            let is_pending = |event: &Value| event["phase"] != "ended";
            events.iter().filter(|event| is_pending(event)).count()
        };
        assert_eq!(pending(&vm), 1, "the started and the due one have ended");
        vm.poll_incarnation(&json!(2), &document[..1]);
        assert_eq!(pending(&vm), 1);
        vm.poll_incarnation(&json!(3), &[]);
        assert_eq!(pending(&vm), 0, "it had appeared");
    }
}

/// An unreadable entry kept the event before the document became empty.
#[test]
fn an_event_that_was_listed_since_the_feature_was_enabled_ends_after_an_unreadable_entry_too() {
    let mut vm = vm();
    vm.poll(&[restart(&json!({}))]);
    vm.wait_until(10);
    vm.poll(&[json!({"EventId": [ID]})]);
    assert_eq!(vm.json()["phase"], "scheduled");
    vm.poll(&[]);
    assert_eq!(vm.json()["outcome"], "unknown");
}

#[test]
fn an_hour_of_failures_makes_the_events_unknown() {
    let mut vm = warm_vm();
    vm.wait_until(3_600 + 600);
    vm.failed_poll();
    assert_eq!(vm.metrics().value(PENDING), Some(0.0));
    vm.wait_until(3_600 + 601);
    vm.failed_poll();
    assert_eq!(vm.metrics().value(PENDING), None);
    assert!(vm.page().contains("Events unknown"), "{}", vm.page());
    vm.poll(&[]);
    assert_eq!(vm.metrics().value(PENDING), Some(0.0));
}
