//! When an alert ends, and until when Alertmanager keeps it without another push.

use super::*;

#[test]
fn firing_alert_is_extended_and_ends_150_seconds_after_its_event() {
    let preempt = tracked("Preempt", "Platform", Some(30));
    let [alert] = &alerts(&snapshot([preempt.clone()]), moment(7))[..] else {
        panic!("one alert");
    };
    assert_eq!(alert.starts_at, at(0));
    assert_eq!(alert.ends_at, at(7 + 15 * 60));
    let over = ended(preempt, 60);
    let [alert] = &alerts(&snapshot([over]), moment(359))[..] else {
        panic!("one alert");
    };
    assert!(alert.is_resolved);
    assert_eq!(alert.ends_at, at(60 + 150));
}

#[test]
fn alert_of_a_restart_that_is_due_outlives_the_time_in_which_the_vm_is_down() {
    let minutes_left = |tracked: TrackedEvent, now: i64| {
        let alerts = alerts(&snapshot([tracked]), moment(now));
        let left = |alert: &Alert| alert.ends_at.saturating_since(at(now)).as_secs() / 60;
        alerts.iter().map(left).collect::<Vec<_>>()
    };
    for event_type in ["Reboot", "Redeploy"] {
        let restart = platform(event_type, Some(1_000));
        assert_eq!(minutes_left(restart.clone(), 99), [15], "16 minutes ahead");
        assert_eq!(minutes_left(restart.clone(), 100), [120]);
        assert_eq!(minutes_left(restart.clone(), 1_001), [120], "overdue");
        assert_eq!(minutes_left(started(restart, 1_000), 1_001), [120]);
        assert_eq!(minutes_left(platform(event_type, None), 0), [120]);
        let user = tracked(event_type, "User", Some(600));
        assert_eq!(minutes_left(user, 0), [15], "ends when it starts");
        let mut unknown = platform(event_type, Some(600));
        unknown.scope = EventScope::Unknown;
        assert_eq!(minutes_left(unknown, 0), [15], "it may be another VM");
    }
    assert_eq!(minutes_left(freeze(None, Some(600)), 0), [15]);
    assert_eq!(minutes_left(platform("Preempt", Some(30)), 0), [15]);
}

#[test]
fn alert_that_waits_for_an_approval_is_resolved_when_the_event_starts() {
    let running = started(tracked("Reboot", "User", Some(900)), 40);
    for tracked in [running.clone(), ended(running, 400)] {
        let [alert] = &alerts(&snapshot([tracked]), moment(401))[..] else {
            panic!("one alert");
        };
        assert!(alert.is_resolved);
        assert_eq!(alert.ends_at, at(40 + 150));
        // The event goes on, but nobody is to act on a resolved alert.
        assert!(!alert.annotations["description"].contains("To do:"));
    }
}

#[test]
fn end_is_not_before_the_start_after_the_clock_was_set_back() {
    let over = ended(tracked("Preempt", "Platform", Some(30)), -200);
    let alert = &alerts(&snapshot([over]), moment(-190))[0];
    assert_eq!(alert.starts_at, alert.ends_at);
}
