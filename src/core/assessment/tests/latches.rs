//! What an event keeps until its end: its alerts, and their labels.

use super::*;
use crate::core::approval::ApprovalStep;

/// Alert, type and source of the only alert.
fn labels(tracked: &TrackedEvent, seconds: i64) -> (AlertRule, EventType, String) {
    let alerts = judge(tracked, moment(seconds)).alerts.into_iter();
    let notified: Vec<_> = alerts.filter(|alert| alert.rule.is_notified()).collect();
    let [alert] = notified.try_into().unwrap();
    (
        alert.rule,
        alert.event_type.clone(),
        alert.source.to_owned(),
    )
}

#[test]
fn labels_do_not_change_during_the_life_of_an_event() {
    let scheduled = tracked("Freeze", "Platform", Some(900));
    let running = started(scheduled.clone(), 900);
    let over = ended(running.clone(), 950);
    let first = labels(&scheduled, 0);
    assert_eq!(labels(&running, 901), first);
    assert_eq!(labels(&over, 960), first);
}

#[test]
fn started_event_is_a_hardware_failure_unless_a_document_can_have_been_missed() {
    for event_type in ["Reboot", "Redeploy"] {
        let critical = format!("{event_type} critical");
        for (first_sight, expected) in [
            (FirstSight::StartedUnannounced, "HardwareFailure critical"),
            (FirstSight::Started, critical.as_str()),
        ] {
            let mut failed = started(platform(event_type, None), 0);
            failed.first_sight = first_sight;
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
    tracked.was_imminent = tracked.has_been_imminent(at(seconds));
    tracked.reschedulings.push(Rescheduling {
        at: at(seconds),
        from: tracked.shown.not_before,
        to: at(to),
    });
    tracked.shown.not_before = Some(at(to));
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
    let before = labels(&changed, 0);
    changed.former_kinds.push(changed.shown.kind());
    changed.shown.event_type = EventType::Redeploy;
    assert_eq!(labels(&changed, 0), before);
    let summary = words(&changed, &snapshot([]), 0).summary;
    assert!(summary.starts_with("Redeploy of web_1 at"), "{summary}");
}

#[test]
fn alerts_of_a_former_type_source_or_duration_do_not_apply_any_more() {
    let mut changed = freeze(None, Some(900));
    changed.former_kinds.push(changed.shown.kind());
    changed.shown.event_type = EventType::Reboot;
    changed.urgent_type = EventType::Reboot;
    assert_alerts(&[(changed.clone(), 0, &["Reboot critical", "-Freeze warning"])]);
    // Until the event is gone.
    assert_alerts(&[(
        ended(changed, 60),
        61,
        &["+Reboot critical", "-Freeze warning"],
    )]);

    let mut shorter = freeze(Some(30), Some(900));
    shorter.former_kinds.push(shorter.shown.kind());
    shorter.shown.duration_seconds = Some(5);
    assert_alerts(&[(shorter, 0, &["Freeze info", "-Freeze warning"])]);

    let mut preempt = tracked("Preempt", "", Some(30));
    preempt.former_kinds.push(preempt.shown.kind());
    preempt.shown.source = Some(Source::Platform);
    let sources = judge(&preempt, moment(0))
        .alerts
        .into_iter()
        .filter(|alert| alert.rule.is_notified());
    let sources: Vec<_> = sources.map(|alert| (alert.source, alert.state)).collect();
    let former = ("", AlertState::Obsolete(None));
    assert_eq!(sources, [("Platform", AlertState::Firing), former]);
}

#[test]
fn alert_of_a_user_event_ends_with_the_wait() {
    let running = started(tracked("Reboot", "User", Some(900)), 40);
    assert_alerts(&[
        (running.clone(), 41, &["-UserInitiatedWaiting warning"]),
        (ended(running, 400), 401, &["-UserInitiatedWaiting warning"]),
    ]);
}

#[test]
fn started_event_is_stuck_after_half_an_hour() {
    let running = started(platform("Reboot", Some(600)), 600);
    assert_alerts(&[
        (running.clone(), 2_399, &["Reboot critical"]),
        (
            running.clone(),
            2_400,
            &["Reboot critical", "Stuck warning"],
        ),
        (ended(running.clone(), 2_000), 2_400, &["+Reboot critical"]),
        (
            ended(running, 2_500),
            2_600,
            &["+Reboot critical", "-Stuck warning"],
        ),
    ]);
}

/// Whether the alert for inhibition applies; `None` if it never did.
fn in_progress(tracked: &TrackedEvent, seconds: i64) -> Option<bool> {
    let alerts = judge(tracked, moment(seconds)).alerts;
    let alert = alerts.iter().find(|alert| !alert.rule.is_notified())?;
    assert_eq!(alert.rule.name, "AzureScheduledEventInProgress");
    Some(alert.state == AlertState::Firing)
}

#[test]
fn down_alerts_are_explained_from_five_minutes_before_the_event_until_half_an_hour_after_its_start()
{
    let reboot = platform("Reboot", Some(900));
    assert_eq!(in_progress(&reboot, 599), Some(false));
    assert_eq!(in_progress(&reboot, 600), Some(true));
    assert_eq!(in_progress(&reboot, 900 + 1_799), Some(true));
    assert_eq!(in_progress(&reboot, 900 + 1_800), Some(false));
    let running = started(reboot.clone(), 300);
    assert_eq!(in_progress(&running, 301), Some(true));
    assert_eq!(in_progress(&running, 300 + 1_800), Some(false));
    let over = ended(running, 400);
    assert_eq!(in_progress(&over, 699), Some(true));
    assert_eq!(in_progress(&over, 700), Some(false));
    let mut approved = platform("Reboot", Some(86_000));
    approved.approval.push(ApprovalStep::Accepted, at(100));
    assert_eq!(in_progress(&approved, 101), Some(true));
    approved = ended(approved, 300);
    assert_eq!(
        in_progress(&approved, 599),
        Some(true),
        "before its NotBefore"
    );
    assert_eq!(in_progress(&approved, 600), Some(false));
    assert_eq!(in_progress(&platform("Reboot", None), 0), Some(true));
}

#[test]
fn alert_for_inhibition_that_does_not_apply_any_more_says_so() {
    let mut postponed = platform("Reboot", Some(100));
    assert_eq!(in_progress(&postponed, 0), Some(true));
    postponed = rescheduled(postponed, 50, 9_000);
    assert_eq!(in_progress(&postponed, 51), Some(false));
    let mut left = platform("Reboot", Some(100));
    left.scope = EventScope::Other;
    left.left_at = Some(at(50));
    assert_eq!(in_progress(&left, 51), Some(false));
    // The event was cancelled long before it would have explained anything.
    let cancelled = ended(platform("Reboot", Some(900)), 60);
    assert_eq!(in_progress(&cancelled, 61), Some(false));
    let late = ended(platform("Reboot", Some(900)), 700);
    assert_eq!(in_progress(&late, 701), Some(true));
    let unannounced = ended(platform("Reboot", None), 60);
    assert_eq!(in_progress(&unannounced, 61), Some(true));
    assert_eq!(in_progress(&unannounced, 360), Some(false));
    let mut harmless = platform("Reboot", Some(100));
    harmless.former_kinds.push(harmless.shown.kind());
    harmless.shown.status = Status::Advisory;
    assert_eq!(in_progress(&harmless, 1), Some(false));
}

#[test]
fn approved_restart_is_critical_however_far_ahead_it_is() {
    let mut approved = platform("Reboot", Some(10_800));
    assert_alerts(&[(approved.clone(), 0, &["Reboot warning"])]);
    approved.approval.push(ApprovalStep::Elsewhere, at(60));
    assert_alerts(&[(approved, 61, &["Reboot critical", "Reboot warning"])]);
}

#[test]
fn series_of_types_that_are_equal_as_labels_are_one() {
    let mut changed = platform("Foo\u{1}", None);
    changed.former_kinds.push(changed.shown.kind());
    changed.shown.event_type = EventType::new("Foo\u{2}");
    assert_alerts(&[(changed, 0, &["UnknownType warning"])]);
}

#[test]
fn short_freezes_advisories_and_waiting_user_events_explain_no_down_alert() {
    assert_eq!(in_progress(&freeze(Some(9), Some(0)), 0), None);
    assert_eq!(in_progress(&freeze(Some(10), Some(0)), 0), Some(true));
    assert_eq!(
        in_progress(&platform("SpotRebalanceRecommendation", None), 0),
        None
    );
    let user = tracked("Reboot", "User", Some(0));
    assert_eq!(in_progress(&user, 0), Some(false));
    assert_eq!(in_progress(&started(user, 1), 1), Some(true));
    let mut other = platform("Reboot", Some(0));
    other.scope = EventScope::Unknown;
    assert_eq!(in_progress(&other, 0), None);
}
