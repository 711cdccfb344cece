//! The end of an alert that others may assert, and alerts while polls fail.

use super::*;

/// The alerts of Alertmanager as they would be read: every alert of the batch with this `updatedAt`.
fn listed(batch: &AlertBatch, updated_at: &str) -> Vec<ListedAlert> {
    let listed = |alert: &Alert| ListedAlert {
        labels: alert.labels.clone(),
        updated_at: updated_at.to_owned(),
        generator_url: String::new(),
    };
    batch.alerts().map(listed).collect()
}

/// A shared event that was pushed, and what Alertmanager then lists.
fn shared() -> (Setup, impl Fn(&str) -> Vec<ListedAlert>) {
    let mut setup = Setup::new();
    setup.poll_shared(0);
    pushed(setup)
}

pub(super) fn pushed(mut setup: Setup) -> (Setup, impl Fn(&str) -> Vec<ListedAlert>) {
    let batch = setup.next();
    let before = listed(&batch, "");
    setup.queue.accepted(batch, setup.now);
    let listed = move |updated_at: &str| {
        let mut listed = before.clone();
        for alert in &mut listed {
            alert.updated_at = updated_at.to_owned();
        }
        listed
    };
    (setup, listed)
}

#[test]
fn one_vm_of_three_whose_document_is_empty_for_145_seconds_does_not_resolve_the_alert() {
    let (mut setup, listed) = shared();
    setup.poll(1, 0);
    assert_eq!(setup.sent(), (0, 0));
    setup.read(Some(&listed("12:00:00")));
    for _ in 0..129 {
        setup.poll(1, 0);
        assert_eq!(setup.sent(), (0, 0));
        assert!(!setup.is_reading());
    }
    setup.poll(1, 0);
    assert_eq!(setup.sent(), (0, 0));
    // The other two push it every 30 seconds, or Prometheus sends it for them every 120 seconds.
    setup.read(Some(&listed("12:01:59")));
    assert_eq!(setup.sent(), (0, 0));
    assert!(!setup.is_reading());
    setup.poll_shared(15);
    assert_eq!(setup.sent(), (1, 0), "it is shown again");
}

#[test]
fn end_of_an_event_of_several_vms_is_sent_when_no_other_vm_pushes_it() {
    let (mut setup, listed) = shared();
    setup.poll(1, 0);
    assert_eq!(setup.sent(), (0, 0));
    setup.read(Some(&listed("12:00:00")));
    setup.poll(130, 0);
    setup.sent();
    setup.read(Some(&listed("12:01:59")));
    setup.poll(130, 0);
    setup.sent();
    setup.read(Some(&listed("12:01:59")));
    assert_eq!(setup.sent(), (0, 1));
    setup.poll(5, 0);
    assert_eq!(setup.sent(), (0, 1), "sent again as any resolved alert");
}

#[test]
fn end_that_cannot_be_verified_is_sent() {
    let (mut setup, _) = shared();
    setup.poll(1, 0);
    assert_eq!(setup.sent(), (0, 0));
    setup.read(None);
    assert_eq!(setup.sent(), (0, 1));
    setup.poll_shared(1);
    assert_eq!(setup.sent(), (1, 0), "it is shown again");
}

#[test]
fn alert_that_prometheus_sends_for_another_vm_every_two_minutes_is_not_resolved() {
    for period in [75, 90, 120] {
        let (mut setup, listed) = shared();
        for second in 0..600 {
            setup.poll(1, 0);
            assert_eq!(setup.sent(), (0, 0), "{second} {period}");
            if setup.is_reading() {
                let sent = second / period;
                setup.read(Some(&listed(&sent.to_string())));
            }
        }
    }
}

#[test]
fn end_is_left_to_the_other_vms_if_they_push_the_alert_for_five_minutes() {
    let (mut setup, listed) = shared();
    let mut reads = 0;
    for second in 0..600 {
        setup.poll(1, 0);
        assert_eq!(setup.sent(), (0, 0));
        if setup.is_reading() {
            reads += 1;
            setup.read(Some(&listed(&second.to_string())));
        }
    }
    assert_eq!(reads, 3, "at 0, 130 and 260 seconds");
    assert_eq!(setup.queue.next_check(), None);
}

/// With scrapes every 15 s and evaluations once a minute, the rules need up to 195 seconds for an end: a scrape, and an
/// evaluation each for the state, for the text with the outcome, and for the end of the alert. Until then Prometheus
/// sends the alert every 120 seconds.
#[test]
fn alert_of_this_vm_alone_is_not_resolved_before_the_rules_resolve_it() {
    let phases = (0..120).step_by(15);
    for (phase, resolved_at) in phases.flat_map(|phase| [(phase, 60), (phase, 130), (phase, 195)]) {
        let mut setup = Setup::new();
        setup.poll(0, 1);
        let (mut setup, listed) = pushed(setup);
        let mut resolved = 0;
        for second in 0..300 {
            setup.poll(1, 0);
            let (firing, ended) = setup.sent();
            assert_eq!(firing, 0);
            assert!(
                ended == 0 || second >= resolved_at,
                "{second} {phase} {resolved_at}"
            );
            resolved += ended;
            if setup.is_reading() && second < resolved_at {
                let sent = (second + phase) / 120;
                setup.read(Some(&listed(&sent.to_string())));
            } else if setup.is_reading() {
                setup.read(Some(&[]));
            }
        }
        assert!(resolved > 0, "{phase} {resolved_at}");
    }
}

/// An earlier process may have sent it, and Prometheus too.
#[test]
fn alert_of_the_first_document_without_rules_is_resolved_after_130_seconds() {
    let mut setup = Setup::new();
    setup.poll(0, 1);
    let (mut setup, listed) = pushed(setup);
    let mut sent = Vec::new();
    for second in 0..140 {
        setup.poll(1, 0);
        sent.extend((setup.sent() != (0, 0)).then_some(second));
        if setup.is_reading() {
            setup.read(Some(&listed("12:00:00")));
        }
    }
    assert_eq!(sent, [131, 136]);
}

#[test]
fn alert_is_not_sent_while_polls_fail_unless_alertmanager_still_has_it() {
    let (mut setup, listed) = shared();
    let mut sent = Vec::new();
    let mut reads = Vec::new();
    for second in 0..3_600 {
        setup.fail(1);
        if setup.sent() != (0, 0) {
            sent.push(second);
        }
        if setup.is_reading() {
            reads.push(second);
            // Another VM sees the end within the hour.
            let still_fires = (second < 1_800).then(|| listed("12:00:00"));
            setup.read(Some(&still_fires.unwrap_or_default()));
            if setup.sent() != (0, 0) {
                sent.push(second);
            }
        }
    }
    // Before the minute is over, as always; then every ten minutes.
    assert_eq!(sent, [29, 59, 659, 1_259]);
    assert_eq!(reads, [659, 1_259, 1_859, 2_459, 3_059]);
    setup.poll_shared(1);
    assert_eq!(setup.sent(), (1, 0), "seen again, it is asserted again");
}

#[test]
fn alert_is_not_sent_while_polls_fail_if_alertmanager_cannot_be_asked() {
    let (mut setup, _) = shared();
    let mut sent = 0;
    for _ in 0..3_600 {
        setup.fail(1);
        sent += setup.sent().0;
        if setup.is_reading() {
            setup.read(None);
        }
    }
    assert_eq!(sent, 2, "in the first minute");
}

fn saved(setup: &Setup) -> SavedState {
    SavedState {
        boot_id: None,
        heartbeat_at: setup.now.wall,
        document_at: Some(setup.now.wall),
        document_incarnation: Some(1),
        warming_up_until: None,
        vm_name: None,
        vm_id: None,
        events: setup.engine.snapshot(setup.now).events.to_vec(),
    }
}

#[test]
fn restored_event_is_not_pushed_before_the_first_document() {
    let (setup, _) = shared();
    let mut restored = Setup::new();
    restored.now = setup.now.after(Duration::from_mins(3));
    let config = EngineConfig {
        vm_name: Some(Arc::from("web_0")),
        ..EngineConfig::default()
    };
    restored.engine = Engine::new(config, Some(saved(&setup)), restored.now);
    let snapshot = restored.engine.snapshot(restored.now);
    assert_eq!(snapshot.events.len(), 1);
    assert_eq!(restored.sent(), (0, 0));
    assert!(!restored.is_reading());
    restored.poll_shared(1);
    assert_eq!(restored.sent(), (1, 0));
}

/// The other VM sends the alert of its event.
#[test]
fn alert_of_an_event_that_no_longer_names_this_vm_ends_unless_another_one_sends_it() {
    let (mut setup, listed) = shared();
    setup.poll_resources(40, r#""web_7""#);
    assert_eq!(setup.sent(), (0, 0));
    setup.read(Some(&listed("40")));
    setup.poll_resources(130, r#""web_7""#);
    assert_eq!(setup.sent(), (0, 0));
    setup.read(Some(&listed("100")));
    assert_eq!(setup.sent(), (0, 0), "it was sent at second 100");
    setup.poll_resources(130, r#""web_7""#);
    assert_eq!(setup.sent(), (0, 0));
    setup.read(Some(&listed("100")));
    assert_eq!(setup.sent(), (0, 1));
}

/// The VM that takes the place of this one in the event sends the alert.
#[test]
fn alert_of_an_event_that_names_another_vm_in_place_of_this_one_is_not_resolved_at_once() {
    let mut setup = Setup::new();
    setup.poll_resources(0, r#""web_0""#);
    let (mut setup, listed) = pushed(setup);
    setup.poll_resources(40, r#""web_7""#);
    assert_eq!(setup.sent(), (0, 0));
    setup.read(Some(&listed("41")));
    assert_eq!(setup.sent(), (0, 0));
    setup.poll_resources(130, r#""web_7""#);
    assert_eq!(setup.sent(), (0, 0));
    setup.read(Some(&listed("41")));
    assert_eq!(setup.sent(), (0, 1), "nobody sent it for 130 seconds");
}

/// The exporter was down when the event left its VM.
#[test]
fn alert_of_an_event_that_left_while_no_process_ran_is_resolved() {
    let mut setup = Setup::new();
    setup.poll_resources(0, r#""web_0""#);
    let saved = saved(&setup);
    let mut restored = Setup::new();
    restored.now = setup.now.after(Duration::from_secs(20));
    let config = EngineConfig {
        vm_name: Some(Arc::from("web_0")),
        ..EngineConfig::default()
    };
    restored.engine = Engine::new(config, Some(saved), restored.now);
    assert_eq!(restored.sent(), (0, 0));
    restored.poll_resources(1, r#""web_7""#);
    assert_eq!(restored.sent(), (0, 0));
    restored.read(Some(&[]));
    let resolved = restored.sent_alone();
    assert_eq!(resolved.len(), 1);
    assert!(resolved[0].is_resolved);
    let description = &resolved[0].annotations["description"];
    assert!(
        description.contains("Outcome: changed: it does not name web_0 any more"),
        "{description}"
    );
}
