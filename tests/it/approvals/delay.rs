//! `--approve.delay` is measured by the monotonic clock, and by the wall clock across a restart.

use std::time::Duration;

use azure_scheduled_events_exporter::time::Timestamp;
use serde_json::{Value, json};

use super::user_events;
use crate::support::simulated_vm::{SimulatedVm, at, restart};

/// This VM is not the first that the event names.
fn behind() -> Value {
    restart(&json!({"Resources": ["web_1", "web_0"]}))
}

fn waiting() -> SimulatedVm {
    let mut vm = SimulatedVm::new(user_events());
    vm.poll(&[behind()]);
    assert_eq!(vm.decision(), "waiting");
    vm
}

#[test]
fn a_step_of_the_wall_clock_neither_shortens_nor_prolongs_the_delay() {
    for wall in [at(600), Timestamp::UNIX_EPOCH] {
        let mut vm = waiting();
        vm.set_wall_clock(wall);
        vm.wait_until(59);
        vm.poll(&[behind()]);
        assert_eq!(vm.decision(), "waiting", "{wall:?}");
        vm.wait_until(60);
        vm.poll(&[behind()]);
        assert_eq!(vm.requested.len(), 1, "{wall:?}");
    }
}

#[test]
fn the_time_before_a_restart_counts_for_the_delay() {
    let mut vm = waiting();
    vm.wait_until(20);
    vm.poll(&[behind()]);
    vm.restart_process(Duration::from_secs(30));
    vm.poll(&[behind()]);
    vm.wait_until(9);
    vm.poll(&[behind()]);
    assert_eq!(vm.decision(), "waiting");
    vm.wait_until(10);
    vm.poll(&[behind()]);
    assert_eq!(vm.requested.len(), 1);
}

#[test]
fn after_a_restart_with_the_clock_set_back_the_delay_is_not_longer_than_from_the_start() {
    let mut vm = waiting();
    let back = vm.wall_clock().before(Duration::from_hours(1));
    vm.set_wall_clock(back);
    vm.restart_process(Duration::ZERO);
    vm.poll(&[behind()]);
    vm.wait_until(59);
    vm.poll(&[behind()]);
    assert_eq!(vm.decision(), "waiting");
    vm.wait_until(60);
    vm.poll(&[behind()]);
    assert_eq!(vm.requested.len(), 1);
}
