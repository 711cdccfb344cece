mod ends;

use super::*;
use crate::{
    azure::document::{self, Answer},
    base::time::Timestamp,
    core::engine::{Engine, EngineConfig, Input, SavedState},
};

/// An engine that reads documents with events of this VM, and a queue for one Alertmanager.
struct Setup {
    engine: Engine,
    queue: AlertQueue,
    now: Moment,
}

impl Setup {
    fn new() -> Self {
        let now = Moment {
            wall: Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
            monotonic: Duration::from_hours(1),
        };
        let config = EngineConfig {
            vm_name: Some(Arc::from("web_0")),
            ..EngineConfig::default()
        };
        Self {
            engine: Engine::new(config, None, now),
            queue: AlertQueue::new(PushTiming::default(), Labels::new()),
            now,
        }
    }

    /// A document with this number of events, after some seconds.
    fn poll(&mut self, seconds: u64, events: usize) {
        self.poll_with(seconds, events, "Freeze", "Fri, 31 Dec 2027 23:59:59 GMT");
    }

    fn poll_with(&mut self, seconds: u64, events: usize, event_type: &str, not_before: &str) {
        self.now = self.now.after(Duration::from_secs(seconds));
        let event = |number| {
            format!(
                r#"{{"EventId":"{number:08X}-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"{event_type}","Resources":["web_0"],"NotBefore":"{not_before}","DurationInSeconds":-1}}"#
            )
        };
        let events: Vec<_> = (0..events).map(event).collect();
        self.poll_body(0, &events.join(","));
    }

    fn poll_body(&mut self, seconds: u64, events: &str) {
        self.now = self.now.after(Duration::from_secs(seconds));
        let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{events}]}}"#);
        let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
        let result = Ok(Answer::Document {
            document,
            anomalies,
        });
        let took = Duration::ZERO;
        self.engine.handle(Input::Polled { result, took }, self.now);
    }

    fn next(&mut self) -> AlertBatch {
        let snapshot = self.engine.snapshot(self.now);
        self.queue.next(&snapshot, self.now, Wanted::All)
    }

    /// The sizes of all batches until nothing is left to send.
    fn send(&mut self) -> Vec<usize> {
        let mut sizes = Vec::new();
        loop {
            let batch = self.next();
            if batch.is_empty() {
                return sizes;
            }
            sizes.push(batch.alerts.len());
            self.queue.accepted(batch, self.now);
        }
    }

    /// A document with one Freeze of two VMs, after some seconds.
    fn poll_shared(&mut self, seconds: u64) {
        self.poll_resources(seconds, r#""web_0","web_1""#);
    }

    fn poll_resources(&mut self, seconds: u64, resources: &str) {
        let event = format!(
            r#"{{"EventId":"E1","EventStatus":"Scheduled","EventType":"Freeze","Resources":[{resources}],"NotBefore":"Fri, 31 Dec 2027 23:59:59 GMT"}}"#
        );
        self.poll_body(seconds, &event);
    }

    fn fail(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
        let took = Duration::ZERO;
        let error = crate::azure::RequestError {
            reason: crate::azure::FailureReason::Timeout,
            status: None,
            message: String::new(),
            retry_after: None,
            is_unsent: false,
        };
        let result = Err(error);
        self.engine.handle(Input::Polled { result, took }, self.now);
    }

    /// The alerts that are sent now.
    fn alerts(&mut self) -> Vec<Alert> {
        let mut sent = Vec::new();
        loop {
            let batch = self.next();
            if batch.is_empty() {
                return sent;
            }
            sent.extend(batch.alerts().cloned());
            self.queue.accepted(batch, self.now);
        }
    }

    /// Their numbers: firing ones, and ends.
    fn sent(&mut self) -> (usize, usize) {
        let alerts = self.alerts();
        let ends = alerts.iter().filter(|alert| alert.is_resolved).count();
        (alerts.len() - ends, ends)
    }
}

#[test]
fn only_news_is_sent_at_once_and_the_rest_by_its_interval() {
    let mut setup = Setup::new();
    setup.poll(0, 3);
    assert_eq!(setup.send(), [3]);
    setup.poll(1, 5);
    assert_eq!(setup.send(), [2]);
    setup.poll(28, 5);
    assert_eq!(setup.send(), [0; 0]);
    setup.poll(1, 6);
    assert_eq!(setup.send(), [4], "the new one and the first three");
    setup.poll(1, 6);
    assert_eq!(setup.send(), [2]);
}

#[test]
fn an_alert_that_another_one_replaced_is_resolved_and_fires_again_with_the_same_labels() {
    let mut setup = Setup::new();
    let mut send = |event_type: &str| {
        setup.poll_with(1, 1, event_type, "Tue, 17 Nov 2026 09:15:00 GMT");
        let mut alerts: Vec<_> = setup
            .alerts()
            .iter()
            .map(|alert| (alert.labels["event_type"].clone(), alert.is_resolved))
            .collect();
        alerts.sort();
        alerts
    };
    let alert = |event_type: &str, is_resolved| (event_type.to_owned(), is_resolved);
    assert_eq!(send("Freeze"), [alert("Freeze", false)]);
    let replaced = [alert("Freeze", true), alert("Redeploy", false)];
    assert_eq!(send("Redeploy"), replaced);
    let again = [alert("Freeze", false), alert("Redeploy", true)];
    assert_eq!(send("Freeze"), again);
}

#[test]
fn an_urgent_reboot_that_becomes_a_redeploy_is_no_second_alert() {
    let mut setup = Setup::new();
    let soon = "Tue, 17 Nov 2026 09:15:00 GMT";
    setup.poll_with(0, 1, "Reboot", soon);
    assert_eq!(setup.sent(), (1, 0));
    for event_type in ["Redeploy", "Reboot", "Redeploy"] {
        setup.poll_with(1, 1, event_type, soon);
        assert_eq!(setup.sent(), (0, 0));
    }
    setup.poll_with(30, 1, "Redeploy", soon);
    let batch = setup.next();
    let alert = batch.alerts().next().unwrap();
    assert_eq!(alert.labels["alertname"], "AzureScheduledEventReboot");
    assert_eq!(alert.labels["event_type"], "Reboot");
    assert!(alert.annotations["summary"].starts_with("Redeploy of web_0"));
    setup.poll_with(1, 1, "Freeze", soon);
    assert_eq!(setup.sent(), (1, 1), "another danger");
}

#[test]
fn critical_event_is_no_second_alert_when_not_before_becomes_unreadable_or_is_postponed() {
    let mut setup = Setup::new();
    setup.poll_with(0, 1, "Reboot", "Tue, 17 Nov 2026 09:15:00 GMT");
    assert_eq!(setup.sent(), (1, 0));
    for not_before in ["at noon", "", "Tue, 17 Nov 2026 14:15:00 GMT"] {
        setup.poll_with(1, 1, "Reboot", not_before);
        assert_eq!(setup.sent(), (0, 0), "{not_before}");
    }
    // Its new last hour.
    setup.poll_with(
        5 * 3_600 - 1_800,
        1,
        "Reboot",
        "Tue, 17 Nov 2026 14:15:00 GMT",
    );
    assert_eq!(setup.next().alerts().count(), 1);
    assert!(!setup.next().has_news);
}

#[test]
fn requests_are_bounded() {
    let mut setup = Setup::new();
    setup.poll(0, 1_200);
    assert_eq!(setup.send(), [500, 500, 200]);
}

#[test]
fn each_new_alert_is_tried_once_while_another_one_waits_for_its_next_attempt() {
    let mut setup = Setup::new();
    let tried = |setup: &mut Setup| {
        let snapshot = setup.engine.snapshot(setup.now);
        setup
            .queue
            .next(&snapshot, setup.now, Wanted::Untried)
            .alerts
            .len()
    };
    setup.poll(0, 1);
    assert_eq!(setup.next().alerts.len(), 1);
    assert_eq!(tried(&mut setup), 0, "its push failed");
    setup.poll(1, 3);
    assert_eq!([tried(&mut setup), tried(&mut setup)], [2, 0]);
    assert_eq!(setup.send(), [3]);
}

#[test]
fn external_labels_are_in_every_alert() {
    let mut setup = Setup::new();
    let labels = Labels::from([("cluster".into(), "eu-1".to_owned())]);
    setup.queue = AlertQueue::new(PushTiming::default(), labels);
    setup.poll(0, 2);
    let batch = setup.next();
    assert_eq!(batch.alerts.len(), 2);
    assert!(
        batch
            .alerts()
            .all(|alert| alert.labels["cluster"] == "eu-1")
    );
}

#[test]
fn events_whose_ids_look_alike_are_pushed_as_one_and_once() {
    let mut setup = Setup::new();
    let event = |id: &str| {
        format!(
            r#"{{"EventId":"{id}","EventStatus":"Scheduled","EventType":"Reboot","Resources":["web_0"]}}"#
        )
    };
    // The first one ends before the second one.
    for events in [
        [event("E\\u200b"), event("E\\u200c")].join(","),
        event("E\\u200c"),
    ] {
        setup.poll_body(0, &events);
        let batch = setup.next();
        assert!(
            batch
                .alerts
                .iter()
                .all(|(state, _)| *state == PushedState::Firing)
        );
        setup.queue.accepted(batch, setup.now);
        assert!(setup.next().is_empty());
    }
}
