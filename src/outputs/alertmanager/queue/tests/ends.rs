//! The end of an alert, and alerts while polls fail.

use super::*;

/// A process that starts some seconds later with the state of another one.
fn restarted(setup: &Setup, seconds: u64) -> Setup {
    let saved = SavedState {
        boot_id: None,
        heartbeat_at: setup.now.wall,
        document_at: Some(setup.now.wall),
        document_incarnation: Some(1),
        warming_up_until: None,
        vm_name: None,
        vm_id: None,
        events: setup.engine.snapshot(setup.now).events.to_vec(),
    };
    let mut restored = Setup::new();
    restored.now = setup.now.after(Duration::from_secs(seconds));
    let config = EngineConfig {
        vm_name: Some(Arc::from("web_0")),
        ..EngineConfig::default()
    };
    restored.engine = Engine::new(config, Some(saved), restored.now);
    assert_eq!(restored.engine.snapshot(restored.now).events.len(), 1);
    restored
}

/// One event of this VM that was pushed.
fn pushed() -> Setup {
    let mut setup = Setup::new();
    setup.poll(0, 1);
    assert_eq!(setup.sent(), (1, 0));
    setup
}

/// The seconds at which something is sent, while documents without events are read.
fn ends_sent(setup: &mut Setup, seconds: std::ops::Range<u64>) -> Vec<u64> {
    let mut sent = Vec::new();
    for second in seconds {
        let (firing, ended) = setup.sent();
        assert_eq!(firing, 0);
        sent.extend((ended > 0).then_some(second));
        setup.poll(1, 0);
    }
    sent
}

#[test]
fn end_is_sent_at_once_and_when_it_has_passed_and_not_again() {
    let mut setup = pushed();
    setup.poll(40, 0);
    let ended_at = setup.now.wall;
    let [end] = setup.alerts().try_into().unwrap();
    assert!(end.is_resolved);
    assert_eq!(end.ends_at, ended_at.after(Duration::from_secs(150)));
    let summary = &end.annotations["summary"];
    assert!(summary.ends_with("ended, outcome unknown"), "{summary}");
    setup.poll(235, 0);
    assert_eq!(setup.alerts(), []);
    setup.poll(5, 0);
    let [last] = setup.alerts().try_into().unwrap();
    assert_eq!(last, end);
    assert!(last.ends_at < setup.now.wall);
    assert_eq!(ends_sent(&mut setup, 0..3_600), [0; 0]);
    assert_eq!(setup.queue.next_check(), None, "it is forgotten");
}

#[test]
fn end_that_was_not_accepted_is_sent_for_six_minutes() {
    let mut setup = pushed();
    setup.poll(1, 0);
    for seconds in [0, 230, 20, 105] {
        setup.poll(seconds, 0);
        let batch = setup.next();
        assert!(batch.has_news, "after {seconds} seconds more");
        assert_eq!(batch.alerts.len(), 1);
    }
    setup.poll(5, 0);
    assert!(setup.next().is_empty());
}

#[test]
fn end_is_sent_once_if_it_is_accepted_after_its_time_has_passed() {
    let mut setup = pushed();
    setup.poll(1, 0);
    assert!(setup.next().has_news);
    setup.poll(260, 0);
    assert_eq!(setup.sent(), (0, 1));
    assert_eq!(ends_sent(&mut setup, 0..600), [0; 0]);
}

#[test]
fn end_is_sent_again_after_a_restart() {
    for (accepted, seconds, expected) in [
        (true, 20, &[0, 220][..]),
        (false, 20, &[0, 220]),
        (true, 260, &[0]),
        (true, 360, &[]),
    ] {
        let mut setup = pushed();
        setup.poll(1, 0);
        if accepted {
            assert_eq!(setup.sent(), (0, 1));
        }
        let mut setup = restarted(&setup, seconds);
        assert_eq!(setup.sent(), (0, 0), "no document was read");
        setup.poll(0, 0);
        let sent = ends_sent(&mut setup, 0..600);
        assert!(
            sent.len() == expected.len()
                && sent
                    .iter()
                    .zip(expected)
                    .all(|(sent, expected)| (*expected..expected + 5).contains(sent)),
            "{seconds}: {sent:?}"
        );
    }
}

#[test]
fn alert_that_fires_again_after_its_end_is_sent_as_firing() {
    for seconds in [1, 100, 200, 400] {
        let mut setup = pushed();
        setup.poll(1, 0);
        assert_eq!(setup.sent(), (0, 1));
        setup.poll(seconds, 0);
        setup.sent();
        setup.poll(1, 1);
        let [alert] = setup.alerts().try_into().unwrap();
        assert!(!alert.is_resolved, "{seconds}");
        assert!(alert.ends_at > setup.now.wall.after(Duration::from_mins(10)));
        setup.poll(1, 1);
        assert_eq!(setup.sent(), (0, 0));
    }
}

#[test]
fn an_alert_that_was_replaced_is_resolved_while_its_event_is_pending() {
    let mut setup = Setup::new();
    let soon = "Tue, 17 Nov 2026 09:15:00 GMT";
    setup.poll_with(0, 1, "Freeze", soon);
    assert_eq!(setup.sent(), (1, 0));
    setup.poll_with(1, 1, "Redeploy", soon);
    let replaced_at = setup.now.wall;
    assert_eq!(setup.sent(), (1, 1));
    let mut ends = Vec::new();
    for _ in 0..600 {
        setup.poll_with(1, 1, "Redeploy", soon);
        let sent = setup.alerts();
        ends.extend(sent.into_iter().filter(|alert| alert.is_resolved));
    }
    let [end] = ends.try_into().unwrap();
    assert_eq!(end.labels["event_type"], "Freeze");
    assert_eq!(end.ends_at, replaced_at.after(Duration::from_secs(150)));
}

#[test]
fn event_of_one_vm_is_sent_while_polls_fail_and_one_of_several_vms_is_not() {
    for (resources, expected) in [
        (r#""web_0""#, (30..3_600).step_by(30).collect::<Vec<_>>()),
        (r#""web_0","web_1""#, vec![30, 60]),
    ] {
        let mut setup = Setup::new();
        setup.poll_resources(0, resources);
        assert_eq!(setup.sent(), (1, 0));
        let mut sent = Vec::new();
        for second in 1..3_600 {
            setup.fail(1);
            sent.extend((setup.sent() != (0, 0)).then_some(second));
        }
        assert_eq!(sent, expected, "{resources}");
        setup.poll_resources(1, resources);
        assert_eq!(setup.sent(), (1, 0), "seen again, it is sent again");
    }
}

#[test]
fn new_alerts_and_ends_are_sent_while_polls_fail() {
    let mut setup = Setup::new();
    setup.poll_shared(0);
    // The push fails.
    assert_eq!(setup.next().alerts.len(), 1);
    for _ in 0..120 {
        setup.fail(1);
    }
    assert_eq!(setup.sent(), (1, 0));
    let mut setup = pushed();
    setup.poll(1, 0);
    assert_eq!(setup.next().alerts.len(), 1);
    for _ in 0..120 {
        setup.fail(1);
    }
    assert_eq!(setup.sent(), (0, 1));
}

#[test]
fn restored_event_is_not_pushed_before_the_first_document() {
    let setup = pushed();
    let mut restored = restarted(&setup, 240);
    for _ in 0..120 {
        assert_eq!(restored.sent(), (0, 0));
        restored.fail(1);
    }
    restored.poll(1, 1);
    assert_eq!(restored.sent(), (1, 0));
}

#[test]
fn at_shutdown_only_what_is_new_is_sent() {
    let mut setup = Setup::new();
    setup.poll(0, 2);
    assert_eq!(setup.send(), [2]);
    let last = |setup: &mut Setup| {
        let snapshot = setup.engine.snapshot(setup.now);
        let batch = setup.queue.next(&snapshot, setup.now, Wanted::News);
        let alerts = batch.alerts();
        alerts.map(|alert| alert.is_resolved).collect::<Vec<_>>()
    };
    setup.poll(40, 2);
    assert_eq!(last(&mut setup), [false; 0], "not again");
    setup.poll(1, 3);
    assert_eq!(last(&mut setup), [false]);
    setup.poll(1, 1);
    assert_eq!(last(&mut setup), [true, true], "the third was not accepted");
}

/// The VMs that it still names send the alert.
#[test]
fn alert_of_an_event_that_no_longer_names_this_vm_is_not_resolved_before_the_event_ends() {
    let web_7 = r#""web_7""#;
    let mut setup = Setup::new();
    setup.poll_shared(0);
    assert_eq!(setup.sent(), (1, 0));
    setup.poll_resources(40, web_7);
    let [end] = setup.alerts().try_into().unwrap();
    let description = &end.annotations["description"];
    assert!(
        description.contains("Outcome: changed: it does not name web_0"),
        "{description}"
    );
    for _ in 0..260 {
        setup.poll_resources(1, web_7);
        assert_eq!(setup.sent(), (0, 0));
    }
    setup.poll(1, 0);
    assert_eq!(setup.sent(), (0, 1));
    assert_eq!(ends_sent(&mut setup, 0..600), [0; 0]);
}

#[test]
fn alert_of_an_event_that_names_nobody_is_resolved() {
    let mut setup = pushed();
    setup.poll_resources(40, "");
    assert_eq!(setup.sent(), (0, 1));
    for _ in 0..235 {
        setup.poll_resources(1, "");
        assert_eq!(setup.sent(), (0, 0));
    }
    setup.poll_resources(5, "");
    assert_eq!(setup.sent(), (0, 1));
}

#[test]
fn alert_of_an_event_that_left_while_no_process_ran_ends() {
    let setup = pushed();
    let mut restored = restarted(&setup, 20);
    let other = r#"{"EventId":"00000000-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","Resources":["web_7"],"NotBefore":"Fri, 31 Dec 2027 23:59:59 GMT"}"#;
    restored.poll_body(1, other);
    assert_eq!(restored.sent(), (0, 1));
}
