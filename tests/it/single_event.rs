//! What is known of one event, over documents that change it in ways that Azure does not document.

use std::time::Duration;

use azure_scheduled_events_exporter::{
    Identity,
    approval::ApprovalPolicy,
    engine::{Effect, Engine, Input, SavedState},
    lifecycle::SavedJournal,
    time::MonotonicTime,
};
use serde_json::{Value, json};

use crate::support::{
    driven_engine::config,
    events::numbered_id,
    simulated_vm::{SimulatedVm, at, moment, restart, started},
};

const MINUTE: u64 = 60;

fn vm() -> SimulatedVm {
    let mut vm = SimulatedVm::new(ApprovalPolicy::default());
    vm.identify();
    vm.poll(&[]);
    vm
}

fn alert_names(vm: &SimulatedVm) -> Vec<String> {
    let json = vm.json();
    let alerts = json["alerts"].as_array().unwrap().iter();
    alerts
        .map(|alert| alert["name"].as_str().unwrap().to_owned())
        .collect()
}

fn platform(members: &Value) -> Value {
    let mut event = restart(members);
    event["EventSource"] = json!("Platform");
    event
}

#[test]
fn urgency_and_the_longest_interruption_outlive_the_lists() {
    let mut vm = vm();
    for minutes in [300, 30, 300] {
        vm.poll(&[platform(
            &json!({"NotBefore": at(minutes * MINUTE).rfc1123()}),
        )]);
    }
    let critical = alert_names(&vm);
    vm.wait_until(7);
    vm.late.by_any_clock = Duration::from_secs(7);
    vm.poll_unchanged();
    let longest = vm.json()["observed_interruption_seconds"].clone();
    for change in 0..40 {
        vm.wait_until(10 + 2 * change);
        vm.tick();
        vm.poll(&[platform(
            &json!({"NotBefore": at(300 * MINUTE + change).rfc1123()}),
        )]);
        if change == 35 {
            vm.restart_process(Duration::from_secs(1));
            vm.identify();
            vm.poll(&[platform(
                &json!({"NotBefore": at(300 * MINUTE + change).rfc1123()}),
            )]);
            vm.wait_until(10 + 2 * change);
        }
    }
    assert_eq!(alert_names(&vm), critical);
    assert!(longest.as_f64().unwrap() > 6.0, "{longest}");
    assert_eq!(vm.json()["observed_interruption_seconds"], longest);
}

#[test]
fn ticks_are_due_and_the_heartbeat_is_written_each_second_only_within_five_minutes_of_an_event_of_this_vm()
 {
    let scheduled = |seconds| json!({"NotBefore": at(seconds).rfc1123()});
    let of_other = json!({"Resources": ["web_7"], "EventStatus": "Started", "NotBefore": ""});
    for (members, writes_in_ten_minutes, seconds_with_ticks) in [
        (scheduled(7 * 24 * 60 * MINUTE), 20, 0),
        // At 30, 60 and 90 s, then each second.
        (scheduled(390), 513, 511),
        (json!({"EventStatus": "Started", "NotBefore": ""}), 600, 600),
        (of_other, 1, 0),
    ] {
        let mut vm = vm();
        vm.poll(&[platform(&members)]);
        let (mut writes, mut ticks) = (0, 0);
        for second in 1..=600 {
            let before = vm.saved_state().heartbeat_at;
            vm.wait_until(second);
            vm.poll_unchanged();
            writes += u32::from(vm.saved_state().heartbeat_at != before);
            ticks += u32::from(vm.ticks());
        }
        assert_eq!(writes, writes_in_ten_minutes, "{members}");
        assert_eq!(ticks, seconds_with_ticks, "{members}");
    }
}

#[test]
fn advisory_needs_no_heartbeat_and_no_save_while_nothing_changes() {
    let mut vm = vm();
    for (seconds, status, is_saved) in [
        (10, "Advisory", true),
        (20, "Advisory", false),
        (30, "Scheduled", true),
        (40, "Scheduled", true),
    ] {
        let before = vm.saves;
        vm.wait_until(seconds);
        let not_before = at(100).rfc1123();
        vm.poll(&[restart(
            &json!({"EventStatus": status, "NotBefore": not_before}),
        )]);
        assert_eq!(vm.saves > before, is_saved, "{seconds} s");
        assert_eq!(vm.looks_for_pauses(), status == "Scheduled");
    }
}

/// The log shortens the lines of an event that has changed or ended 30 times.
#[test]
fn each_kind_of_flapping_is_counted() {
    let event = |members| vec![platform(&members)];
    for other in [
        Vec::new(),
        event(json!({"NotBefore": at(1_800).rfc1123()})),
        event(json!({"Resources": ["web_0"]})),
        event(json!({"DurationInSeconds": 9})),
        vec![started()],
    ] {
        let mut vm = vm();
        for second in 0..62 {
            vm.wait_until(second);
            let first = event(json!({}));
            vm.poll(if second % 2 == 0 { &first } else { &other });
        }
        let mut lines = vm.log.iter();
        lines
            .by_ref()
            .find(|line| line.field("resources").is_some());
        let last = lines.rfind(|line| line.field("transition").is_some());
        let texts = last.map(|line| line.field("resources"));
        assert_eq!(texts, Some(None), "{last:?}: {other:?}");
    }
}

/// An entry of Azure's document may name any number of VMs.
#[test]
fn a_line_about_an_event_of_thousands_of_vms_has_the_first_names() {
    let mut vm = vm();
    let names: Vec<_> = (0..9_000).map(|number| format!("web_{number}")).collect();
    vm.poll(&[platform(&json!({"Resources": names}))]);
    let logged = vm.log.iter().find_map(|line| line.field("resources"));
    let logged = logged.unwrap();
    assert!(logged.starts_with("web_0,web_1,"), "{logged:.40}");
    assert!(
        logged.ends_with('…') && logged.len() < 30_000,
        "{}",
        logged.len()
    );
    assert_eq!(vm.json()["Resources"].as_array().unwrap().len(), 9_000);
}

#[test]
fn events_that_flap_write_a_bounded_number_of_lines_a_minute_and_hide_no_eviction() {
    let mut vm = vm();
    for second in (1..58).step_by(3) {
        vm.wait_until(second);
        let not_before = at(1_800 + second).rfc1123();
        let number = |number: u64| usize::try_from(number).unwrap();
        let changing =
            (0..200).map(|it| json!({"EventId": numbered_id(number(it)), "NotBefore": not_before}));
        let new = (0..200).map(|it| {
            let id = numbered_id(number(second * 1_000 + it));
            json!({"EventId": id, "Resources": ["web_1"]})
        });
        let eviction = (second > 30).then(|| json!({"EventType": "Preempt"}));
        let events = changing.chain(new).chain(eviction);
        vm.poll(&events.map(|it| restart(&it)).collect::<Vec<_>>());
    }
    let lines = |vm: &SimulatedVm, event_type: &str| {
        let is_of_type = |field| event_type.is_empty() || field == Some(event_type);
        let lines = vm.log.iter();
        let lines = lines.filter(|line| line.message == "scheduled event");
        lines
            .filter(|it| is_of_type(it.field("event_type")))
            .count()
    };
    assert_eq!(lines(&vm, "Preempt"), 1);
    assert_eq!(lines(&vm, ""), 201);
    let transitions = vm.published.journal.newest;
    vm.wait_until(61);
    vm.poll_unchanged();
    let line = vm.log.iter().find_map(|line| line.field("left_out"));
    // The decisions about approvals of user events of this VM are such lines, too.
    let left_out: u64 = line.unwrap().parse().unwrap();
    assert!(left_out >= transitions - 201, "{left_out} of {transitions}");
}

/// Whatever it has in each document, it is no change: nothing is logged, counted, told to readers or written for it.
#[test]
fn an_undocumented_member_that_changes_is_no_change_of_the_event() {
    let mut vm = vm();
    let event = |second: u64| {
        restart(&json!({"NotBefore": at(96 * 60 * MINUTE).rfc1123(), "Trace": second}))
    };
    vm.poll(&[event(0)]);
    vm.wait_until(1);
    vm.poll(&[event(1)]);
    let (saves, journal) = (vm.saves, vm.published.journal.newest);
    vm.log.clear();
    let before = vm.json();
    for second in 2..22 {
        vm.wait_until(second);
        vm.poll(&[event(second)]);
    }
    assert!(vm.log.is_empty(), "{:?}", vm.log);
    assert_eq!(vm.published.journal.newest, journal);
    assert_eq!(vm.saves, saves);
    assert_eq!(vm.json()["changed_at"], before["changed_at"]);
}

/// Its clocks stop in the pause, and no tick is due when the answer comes.
#[test]
fn a_pause_that_ends_with_the_document_makes_the_outcome_unknown() {
    let outcome = |not_before: u64, late: u64| {
        let mut vm = vm();
        vm.wait_until(600);
        vm.poll(&[restart(&json!({"NotBefore": at(not_before).rfc1123()}))]);
        vm.tick();
        vm.set_wall_clock(at(608));
        vm.late.by_any_clock = Duration::from_secs(late);
        vm.poll(&[]);
        vm.json()["outcome"].clone()
    };
    assert_eq!(outcome(800, 0), "unknown");
    assert_eq!(outcome(96 * 60 * MINUTE, 8), "unknown");
    assert_eq!(
        outcome(96 * 60 * MINUTE, 0),
        "cancelled",
        "the request was slow"
    );
}

#[test]
fn a_write_that_began_before_a_foreign_state_was_discarded_counts_no_entry_of_the_next_journal() {
    let now = moment(0);
    let saved = SavedState {
        boot_id: None,
        heartbeat_at: now.wall,
        monotonic: MonotonicTime::default(),
        document_at: None,
        set_back: Duration::ZERO,
        document_incarnation: None,
        warm_up_until: None,
        vm_name: None,
        metadata_name: None,
        owner: None,
        vm_id: Some("another-vm".to_owned()),
        journal: SavedJournal::default(),
        events: Vec::new(),
    };
    let mut engine = Engine::new(config(Some("web_0"), 0), Some(saved), now);
    let effects = engine.begin(now);
    assert!(matches!(effects[0], Effect::Write { .. }), "{effects:?}");
    let identity = Identity {
        name: "web_0".to_owned(),
        vm_id: "a-vm".to_owned(),
        ..Identity::default()
    };
    let (result, took) = (Ok(identity), Duration::ZERO);
    engine.handle(Input::Identified { result, took }, now);
    engine.handle(Input::StateWritten(Ok(())), now);
    let journal = engine.snapshot(now).journal;
    let journal = (&*journal.id, journal.newest, journal.on_disk);
    assert_eq!(journal, ("next", 0, 0));
}
