//! What events mean. `tests/scenarios/alerts.txt` has their alerts.

mod texts;

use super::{
    fixtures::{at, ended, freeze, moment, platform, snapshot, started, tracked},
    *,
};
use crate::{
    azure::event::Status,
    core::lifecycle::{End, Outcome},
};

fn is_open(tracked: &TrackedEvent, snapshot: &Snapshot, now: Moment) -> Option<bool> {
    judge(tracked, now).is_open(&snapshot.poll)
}

fn interrupts_vm(tracked: &TrackedEvent) -> bool {
    judge(tracked, moment(0)).interrupts_vm()
}

fn words(tracked: &TrackedEvent, snapshot: &Snapshot, seconds: i64) -> Words {
    judge(tracked, moment(seconds)).words(snapshot)
}

#[test]
fn priority_is_by_start_then_severity_then_time() {
    let cases = [
        (ended(started(platform("Preempt", None), 5), 9), 0.0),
        (platform("Reboot", Some(7 * 86_400)), 1.0 / 168.0),
        (platform("Reboot", Some(7200)), 0.5),
        (freeze(Some(5), Some(-60)), 11.0),
        (platform("Terminate", Some(600)), 11.85),
        (platform("Reboot", Some(3600)), 11.1),
        (platform("Reboot", Some(1800)), 12.55),
        (platform("Preempt", Some(0)), 13.0),
        (started(freeze(Some(5), Some(0)), 0), 21.0),
        (started(platform("Reboot", Some(0)), 0), 23.0),
    ];
    for (tracked, expected) in cases {
        let priority = judge(&tracked, moment(0)).priority();
        assert!((priority - expected).abs() < 1e-9, "{priority}, {expected}");
    }
}

/// After a successful poll.
fn known(events: impl IntoIterator<Item = TrackedEvent>) -> Snapshot {
    let mut snapshot = snapshot(events);
    snapshot.poll.succeed(snapshot.as_of);
    snapshot
}

#[test]
fn event_is_open_while_the_last_poll_lists_it() {
    let reboot = platform("Reboot", Some(900));
    let mut snapshot = known([]);
    let now = snapshot.as_of;
    assert_eq!(is_open(&reboot, &snapshot, now), Some(true));
    let mut missing = reboot.clone();
    missing.last_listed_at = Some(moment(0));
    assert_eq!(is_open(&missing, &snapshot, now), None);
    let over = ended(reboot.clone(), 60);
    assert_eq!(is_open(&over, &snapshot, now), Some(false));
    let mut left = reboot.clone();
    left.scope = EventScope::Other;
    left.left_at = Some(at(60));
    assert_eq!(is_open(&left, &snapshot, now), Some(false));
    let reason = crate::azure::FailureReason::Timeout;
    snapshot
        .poll
        .fail(reason, None, "no answer".to_owned(), now);
    assert_eq!(is_open(&reboot, &snapshot, now), None, "not known");
    assert_eq!(is_open(&over, &snapshot, now), Some(false));
}

#[test]
fn freezes_of_0_s_and_advisories_do_not_interrupt_the_vm() {
    assert!(interrupts_vm(&freeze(Some(1), None)));
    assert!(interrupts_vm(&platform("Quarantine", None)));
    let mut reboot = platform("Reboot", None);
    reboot.shown.duration_seconds = Some(0);
    assert!(
        interrupts_vm(&reboot),
        "a restart stops the VM whatever its duration is"
    );
    assert!(!interrupts_vm(&freeze(Some(0), None)));
    assert!(!interrupts_vm(&platform(
        "SpotRebalanceRecommendation",
        None
    )));
    reboot.scope = EventScope::Other;
    assert!(!interrupts_vm(&reboot));
}
