//! What an alert keeps during its event: its labels, and its severity once the event was urgent.

use super::*;

#[test]
fn labels_do_not_change_during_the_life_of_an_event() {
    let scheduled = tracked("Freeze", "Platform", Some(900));
    let running = started(scheduled.clone(), 900);
    let over = ended(running.clone(), 950);
    let labels = |tracked, seconds| alerts(&snapshot([tracked]), at(seconds))[0].labels.clone();
    let first = labels(scheduled, 0);
    assert_eq!(labels(running, 901), first);
    assert_eq!(labels(over, 960), first);
}

#[test]
fn started_event_is_a_hardware_failure_unless_it_can_have_been_announced_before() {
    for event_type in ["Reboot", "Redeploy"] {
        let critical = format!("{event_type} critical");
        for (gap, expected) in [
            (PollGap::Normal, "HardwareFailure critical"),
            (PollGap::Long, "HardwareFailure critical"),
            (PollGap::Notice, critical.as_str()),
        ] {
            let mut failed = started(platform(event_type, None), 0);
            failed.gap = gap;
            assert_alerts(&[(failed, 1, &[expected])]);
        }
    }
}

#[test]
fn event_without_a_time_that_starts_keeps_its_alert() {
    let scheduled = platform("Reboot", None);
    assert_alerts(&[
        (scheduled.clone(), 0, &["Reboot critical"]),
        (started(scheduled, 60), 61, &["Reboot critical"]),
    ]);
}

fn rescheduled(mut tracked: TrackedEvent, seconds: i64, to: i64) -> TrackedEvent {
    tracked.reschedulings.push(Rescheduling {
        at: at(seconds),
        from: tracked.event.not_before,
        to: at(to),
    });
    tracked.event.not_before = Some(at(to));
    tracked
}

#[test]
fn critical_event_stays_critical_after_a_postponement() {
    for event_type in ["Reboot", "Redeploy"] {
        let critical = format!("{event_type} critical");
        let warning = format!("{event_type} warning");
        let (critical, warning) = (critical.as_str(), warning.as_str());
        let soon = platform(event_type, Some(900));
        let days = rescheduled(soon.clone(), 600, 200_000);
        let ahead = platform(event_type, Some(7_200));
        let unreadable = rescheduled(platform(event_type, None), 60, 9_000);
        assert_alerts(&[
            (rescheduled(soon.clone(), 60, 9_000), 61, &[critical]),
            (days.clone(), 601, &[critical]),
            (rescheduled(days, 700, 300_000), 701, &[critical]),
            // Its last hour had begun when it was postponed.
            (
                rescheduled(ahead.clone(), 3_601, 90_000),
                3_602,
                &[critical, warning],
            ),
            (rescheduled(ahead, 3_600, 90_000), 3_601, &[warning]),
            // The first document had a NotBefore that could not be read.
            (unreadable, 61, &[critical, warning]),
        ]);
    }
}

#[test]
fn postponement_from_hours_to_days_ahead_is_no_new_alert() {
    let hours = platform("Redeploy", Some(7_200));
    assert_alerts(&[
        (hours.clone(), 0, &["Redeploy warning"]),
        (rescheduled(hours, 60, 200_000), 61, &["Redeploy warning"]),
    ]);
}

#[test]
fn urgent_reboot_that_becomes_a_redeploy_keeps_its_labels() {
    let mut changed = platform("Reboot", Some(900));
    let labels = |tracked: &TrackedEvent| {
        let [alert] = alerts(&snapshot([tracked.clone()]), at(0))
            .try_into()
            .unwrap();
        alert.labels
    };
    let before = labels(&changed);
    changed.event.event_type = EventType::Redeploy;
    assert_eq!(labels(&changed), before);
    let [alert] = alerts(&snapshot([changed]), at(0)).try_into().unwrap();
    let summary = &alert.annotations["summary"];
    assert!(summary.starts_with("Redeploy of web_1 in 15m"), "{summary}");
}
