//! The end of an alert that nobody else asserts, and the reads before an alert is sent again.

use super::{ends::pushed, *};

/// A pushed event of this VM alone that appeared after the first document.
fn alone() -> (Setup, impl Fn(&str) -> Vec<ListedAlert>) {
    let mut setup = Setup::new();
    setup.poll(0, 0);
    assert_eq!(setup.sent(), (0, 0));
    setup.poll(1, 1);
    pushed(setup)
}

/// The same alerts after Prometheus has sent them.
fn of_prometheus(mut listed: Vec<ListedAlert>) -> Vec<ListedAlert> {
    for alert in &mut listed {
        "http://prometheus:9090/graph".clone_into(&mut alert.generator_url);
    }
    listed
}

#[test]
fn alert_that_nobody_else_asserts_is_resolved_at_once() {
    for readable in [true, false] {
        let (mut setup, listed) = alone();
        let listed = listed("12:00:00");
        let listed = readable.then_some(&listed[..]);
        setup.poll(30, 1);
        assert_eq!(setup.sent(), (0, 0));
        setup.read(listed);
        assert_eq!(setup.sent(), (1, 0));
        setup.poll(1, 0);
        assert_eq!(setup.sent(), (0, 0));
        setup.read(listed);
        assert_eq!(setup.sent(), (0, 1));
    }
}

#[test]
fn alert_that_prometheus_sent_within_130_seconds_is_not_resolved_at_once() {
    for (seconds, readable, expected) in [
        (0, true, 0),
        (90, true, 0),
        // A read that fails hinders nothing.
        (90, false, 1),
        (120, true, 1),
        (120, false, 1),
    ] {
        let (mut setup, listed) = alone();
        setup.poll(30, 1);
        assert_eq!(setup.sent(), (0, 0));
        setup.read(Some(&of_prometheus(listed("12:00:20"))));
        assert_eq!(setup.sent(), (1, 0));
        // The later pushes hide who sent it before.
        for _ in 0..seconds / 30 {
            setup.poll(30, 1);
            assert_eq!(setup.sent(), (0, 0));
            setup.read(Some(&listed("12:00:30")));
            assert_eq!(setup.sent(), (1, 0));
        }
        setup.poll(10, 0);
        assert_eq!(setup.sent(), (0, 0));
        setup.read(readable.then_some(&listed("12:00:30")[..]));
        assert_eq!(setup.sent(), (0, expected), "{seconds} {readable}");
    }
}

#[test]
fn alert_that_prometheus_sent_last_is_resolved_when_it_sends_no_more() {
    let (mut setup, listed) = alone();
    let listed = of_prometheus(listed("12:00:20"));
    let mut sent = Vec::new();
    for second in 0..135 {
        setup.poll(1, 0);
        sent.extend((setup.sent() != (0, 0)).then_some(second));
        if setup.is_reading() {
            setup.read(Some(&listed));
        }
    }
    assert_eq!(sent, [131]);
}

#[test]
fn read_that_fails_does_not_prevent_that_an_alert_is_sent_again() {
    let (mut setup, _) = alone();
    let (mut sent, mut reads) = (Vec::new(), Vec::new());
    for second in 1..=300 {
        setup.poll(1, 1);
        sent.extend((setup.sent() != (0, 0)).then_some(second));
        if setup.is_reading() {
            reads.push(second);
            setup.read(None);
            sent.extend((setup.sent() != (0, 0)).then_some(second));
        }
    }
    assert_eq!(sent, (30..=300).step_by(30).collect::<Vec<_>>());
    assert_eq!(reads, [30, 180], "the next one 130 seconds later");
}

#[test]
fn many_alerts_are_sent_again_without_a_read_and_not_resolved_at_once() {
    for (events, resolved) in [(MAX_READ_ALERTS, 1), (MAX_READ_ALERTS + 1, 0)] {
        let mut setup = Setup::new();
        setup.poll(0, 0);
        assert_eq!(setup.sent(), (0, 0));
        setup.poll(1, events);
        let (mut setup, listed) = pushed(setup);
        let listed = listed("12:00:00");
        let mut reads = 0;
        setup.poll(30, events);
        let mut batches = setup.send();
        while setup.is_reading() {
            reads += 1;
            setup.read(Some(&listed));
            batches.extend(setup.send());
        }
        assert_eq!(batches, [events], "in one request");
        assert_eq!(reads > 0, resolved > 0);
        setup.poll(1, events - 1);
        assert_eq!(setup.sent(), (0, 0));
        setup.read(Some(&listed));
        assert_eq!(setup.sent(), (0, resolved));
    }
}
