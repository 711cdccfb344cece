//! Which alerts an event has.

mod latches;
mod texts;

use super::{
    fixtures::{at, ended, freeze, moment, platform, snapshot, started, tracked},
    *,
};
use crate::{
    azure::event::{EventType, Source, Status},
    core::lifecycle::{End, FirstSight, Outcome, Rescheduling},
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

/// The alerts as `Name severity`: after the end with a plus, those that do not apply any more with a minus.
fn names(tracked: &TrackedEvent, seconds: i64) -> Vec<String> {
    let name = |alert: EventAlert<'_>| {
        let state = match alert.state {
            AlertState::Firing => "",
            AlertState::Ended(_) => "+",
            AlertState::Obsolete(_) => "-",
        };
        let name = alert.rule.name.trim_start_matches("AzureScheduledEvent");
        format!("{state}{name} {}", alert.rule.severity.as_str())
    };
    let alerts = judge(tracked, moment(seconds)).alerts.into_iter();
    let notified = alerts.filter(|alert| alert.rule.is_notified());
    notified.map(name).collect()
}

fn assert_alerts(cases: &[(TrackedEvent, i64, &[&str])]) {
    for (tracked, seconds, expected) in cases {
        let alerts = names(tracked, *seconds);
        assert_eq!(alerts, *expected, "{tracked:?} at {seconds}");
    }
}

#[test]
fn restart_rules_depend_on_source_notice_and_remaining_time() {
    let failed = || started(platform("Reboot", None), 0);
    assert_alerts(&[
        (
            tracked("Reboot", "User", Some(900)),
            0,
            &["UserInitiatedWaiting warning"],
        ),
        (
            tracked("Redeploy", "User", Some(900)),
            0,
            &["UserInitiatedWaiting warning"],
        ),
        (failed(), 0, &["HardwareFailure critical"]),
        (
            started(platform("Redeploy", None), 0),
            0,
            &["HardwareFailure critical"],
        ),
        (
            started(tracked("Redeploy", "", None), 0),
            0,
            &["HardwareFailure critical"],
        ),
        (
            started(platform("Redeploy", Some(600)), 600),
            600,
            &["Redeploy critical"],
        ),
        (platform("Reboot", None), 0, &["Reboot critical"]),
        (tracked("Reboot", "", Some(900)), 0, &["Reboot critical"]),
        (platform("Reboot", Some(3_599)), 0, &["Reboot critical"]),
        (platform("Reboot", Some(3_600)), 0, &["Reboot warning"]),
        (
            platform("Reboot", Some(3_600)),
            1,
            &["Reboot critical", "Reboot warning"],
        ),
        (platform("Redeploy", Some(86_399)), 0, &["Redeploy warning"]),
        (
            platform("Redeploy", Some(86_400)),
            0,
            &["DegradedHardware warning"],
        ),
    ]);
    let late = (platform("Redeploy", Some(86_400)), 82_801);
    let early = (started(platform("Reboot", Some(7_200)), 7_200), 7_200);
    assert_alerts(&[
        (
            late.0,
            late.1,
            &["Redeploy critical", "DegradedHardware warning"],
        ),
        (early.0, early.1, &["Reboot critical", "Reboot warning"]),
    ]);
}

#[test]
fn other_rules_depend_on_type_and_duration() {
    assert_alerts(&[
        (platform("Preempt", Some(30)), 0, &["Preempt critical"]),
        (
            tracked("Terminate", "User", Some(600)),
            0,
            &["Terminate warning"],
        ),
        (
            platform("Quarantine", Some(900)),
            0,
            &["UnknownType warning"],
        ),
        (freeze(None, Some(900)), 0, &["Freeze warning"]),
        (freeze(Some(10), Some(900)), 0, &["Freeze warning"]),
        (freeze(Some(9), Some(900)), 0, &["Freeze info"]),
        (freeze(Some(0), Some(86_399)), 0, &["Freeze info"]),
        (freeze(Some(0), Some(86_400)), 0, &["Freeze info"]),
        (freeze(None, Some(86_400)), 0, &["DegradedHardware warning"]),
        (tracked("Freeze", "User", Some(86_400)), 0, &[]),
    ]);
    let late = freeze(None, Some(86_400));
    assert_alerts(&[(
        late,
        82_801,
        &["Freeze warning", "DegradedHardware warning"],
    )]);
}

#[test]
fn user_event_that_is_first_seen_started_has_no_alert() {
    for event_type in ["Reboot", "Redeploy"] {
        let approved = started(tracked(event_type, "User", None), 0);
        assert_alerts(&[(approved.clone(), 0, &[]), (ended(approved, 60), 61, &[])]);
    }
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

#[test]
fn advisory_has_one_alert_of_severity_info_whatever_its_not_before_is() {
    for not_before in [None, Some(-5), Some(30), Some(900), Some(86_400)] {
        let mut preempt = platform("Preempt", not_before);
        preempt.shown.status = Status::Advisory;
        let rebalance = platform("SpotRebalanceRecommendation", not_before);
        for advisory in [preempt, rebalance] {
            assert_alerts(&[
                (advisory.clone(), 0, &["Advisory info"]),
                (ended(advisory, 60), 61, &["+Advisory info"]),
            ]);
        }
    }
}

#[test]
fn events_of_other_vms_have_no_alert_and_those_that_may_be_of_this_one_do() {
    let mut preempt = tracked("Preempt", "Platform", Some(30));
    preempt.scope = EventScope::Other;
    assert_alerts(&[(preempt.clone(), 0, &[])]);
    preempt.scope = EventScope::Unknown;
    assert_alerts(&[(preempt, 0, &["Preempt critical"])]);
}

#[test]
fn event_that_no_longer_names_this_vm_has_ended_for_it() {
    let mut left = platform("Reboot", Some(900));
    left.scope = EventScope::Other;
    left.left_at = Some(at(60));
    assert_alerts(&[
        (left.clone(), 61, &["+Reboot critical"]),
        (left.clone(), 659, &["+Reboot critical"]),
        (left.clone(), 660, &[]),
    ]);
    let known = known([left.clone()]);
    assert_eq!(is_open(&left, &known, known.as_of), Some(false));
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
