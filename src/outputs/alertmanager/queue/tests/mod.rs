use std::time::Duration;

use super::*;
use crate::{
    azure::document::{self, Answer},
    core::engine::{Engine, EngineConfig, Input, SavedState},
};

const FAR: &str = "Fri, 31 Dec 2027 23:59:59 GMT";
const SOON: &str = "Tue, 17 Nov 2026 09:15:00 GMT";

/// An engine that reads documents with events of this VM, and a queue for one Alertmanager.
struct Setup {
    engine: Engine,
    queue: AlertQueue,
    now: Moment,
}

impl Setup {
    fn new() -> Self {
        let now = Moment::new(
            Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
            Duration::from_hours(1),
        );
        Self::continued(None, now)
    }

    fn continued(saved: Option<SavedState>, now: Moment) -> Self {
        let config = EngineConfig {
            vm_name: Some(Arc::from("web_0")),
            ..EngineConfig::default()
        };
        Self {
            engine: Engine::new(config, saved, now),
            queue: AlertQueue::new(PushTiming::default(), Labels::new()),
            now,
        }
    }

    /// With an event of this VM that Alertmanager accepted.
    fn pushed(event: &str) -> Self {
        let mut setup = Self::new();
        setup.poll(0, event);
        assert!(!setup.sent().is_empty());
        setup
    }

    /// A process that starts some seconds later with the state of this one.
    fn restarted(&self, seconds: u64) -> Self {
        let snapshot = self.engine.snapshot(self.now);
        let saved = SavedState {
            boot_id: None,
            heartbeat_at: self.now.wall,
            monotonic: self.now.monotonic,
            document_at: Some(self.now),
            set_back: Duration::ZERO,
            document_incarnation: Some(1),
            warm_up_until: None,
            vm_name: None,
            metadata_name: None,
            vm_id: None,
            journal: None,
            events: [snapshot.events.to_vec(), snapshot.past.to_vec()].concat(),
        };
        Self::continued(Some(saved), self.now.after(Duration::from_secs(seconds)))
    }

    /// A document with these events, after some seconds.
    fn poll(&mut self, seconds: u64, events: &str) {
        self.now = self.now.after(Duration::from_secs(seconds));
        let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{events}]}}"#);
        let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
        let result = Ok(Answer::Document {
            document,
            anomalies,
        });
        self.polled(result);
    }

    fn fail(&mut self, seconds: u64) {
        self.now = self.now.after(Duration::from_secs(seconds));
        let error = crate::azure::RequestError {
            reason: crate::azure::FailureReason::Timeout,
            status: None,
            message: String::new(),
            retry_after: None,
            is_unsent: false,
        };
        self.polled(Err(error));
    }

    fn polled(&mut self, result: Result<Answer, crate::azure::RequestError>) {
        let (took, late) = (Duration::ZERO, Duration::ZERO);
        let input = Input::Polled { result, took, late };
        self.engine.handle(input, self.now);
    }

    fn update(&mut self) -> Snapshot {
        let snapshot = self.engine.snapshot(self.now);
        self.queue.update(&snapshot, self.now);
        snapshot
    }

    fn has_news(&mut self) -> bool {
        self.update();
        self.queue.has_news(self.now)
    }

    /// What is sent when it is time to send all alerts again, and accepted.
    fn sent_again(&mut self) -> Vec<Alert> {
        let snapshot = self.update();
        let alerts = self.queue.next(&snapshot, self.now);
        self.queue.accepted(&alerts, self.now);
        alerts
    }

    /// What is sent because something changed, and accepted.
    fn sent(&mut self) -> Vec<Alert> {
        if self.has_news() {
            self.sent_again()
        } else {
            Vec::new()
        }
    }

    /// The seconds at which ends are sent, every 30 seconds or as news, while documents without events are read.
    fn ends_sent(&mut self, seconds: u64) -> Vec<u64> {
        let mut sent = Vec::new();
        for second in 0..seconds {
            let alerts = if second % 30 == 0 {
                self.sent_again()
            } else {
                self.sent()
            };
            assert!(alerts.iter().all(|alert| alert.is_resolved));
            sent.extend((!alerts.is_empty()).then_some(second));
            self.poll(1, "");
        }
        sent
    }
}

fn event(event_type: &str, resources: &str, not_before: &str) -> String {
    format!(
        r#"{{"EventId":"E1","EventStatus":"Scheduled","EventType":"{event_type}","Resources":{resources},"NotBefore":"{not_before}","DurationInSeconds":-1}}"#
    )
}

fn freeze() -> String {
    event("Freeze", r#"["web_0"]"#, FAR)
}

fn other(id: &str) -> String {
    freeze().replace("E1", id)
}

fn resolved(alerts: &[Alert]) -> Vec<(&str, bool)> {
    let alerts = alerts.iter();
    alerts
        .map(|alert| (alert.labels["event_type"].as_str(), alert.is_resolved))
        .collect()
}

#[test]
fn all_alerts_are_sent_when_one_is_new_or_changes() {
    let mut setup = Setup::pushed(&freeze());
    setup.poll(1, &freeze());
    assert!(!setup.has_news());
    setup.poll(1, &[freeze(), other("E2")].join(","));
    assert_eq!(setup.sent().len(), 2);
    assert!(!setup.has_news());
    let sooner = freeze().replace("31 Dec", "30 Dec");
    setup.poll(1, &[freeze(), sooner.replace("E1", "E2")].join(","));
    assert_eq!(setup.sent().len(), 2);
    assert_eq!(setup.sent_again().len(), 2);
}

#[test]
fn an_alert_that_another_one_replaced_ends_and_fires_again_with_the_same_labels() {
    let mut setup = Setup::pushed(&event("Freeze", r#"["web_0"]"#, SOON));
    setup.poll(1, &event("Redeploy", r#"["web_0"]"#, SOON));
    assert_eq!(
        resolved(&setup.sent()),
        [("Freeze", true), ("Redeploy", false)]
    );
    setup.poll(1, &event("Freeze", r#"["web_0"]"#, SOON));
    assert_eq!(
        resolved(&setup.sent()),
        [("Freeze", false), ("Redeploy", true)]
    );
}

#[test]
fn end_is_sent_with_its_words_until_its_time_and_once_more_when_prometheus_has_ended_it() {
    let mut setup = Setup::pushed(&freeze());
    setup.poll(40, "");
    let ended_at = setup.now.wall;
    let [end] = setup.sent().try_into().unwrap();
    assert!(end.is_resolved);
    assert_eq!(end.ends_at, ended_at.after(Duration::from_secs(150)));
    let summary = &end.annotations["summary"];
    assert!(summary.ends_with("ended, outcome unknown"), "{summary}");
    assert_eq!(setup.ends_sent(7_210), [0, 30, 60, 90, 120, 240]);
    assert!(setup.queue.is_empty(), "it is forgotten");
}

#[test]
fn end_that_is_not_accepted_is_sent_until_what_was_accepted_before_has_passed() {
    for (event_type, seconds) in [("Freeze", 900), ("Reboot", 7_200)] {
        let mut setup = Setup::pushed(&event(event_type, r#"["web_0"]"#, SOON));
        setup.poll(1, "");
        for step in [400, seconds - 410] {
            setup.poll(step, "");
            assert!(setup.has_news(), "{event_type} {step}");
        }
        setup.poll(10, "");
        assert!(!setup.has_news(), "{event_type}");
    }
}

#[test]
fn end_is_sent_after_a_restart_of_the_exporter() {
    for (offline, expected) in [
        (20, &[0, 30, 60, 90, 120, 220][..]),
        (400, &[0]),
        (3_600, &[0]),
        (7_300, &[]),
    ] {
        let mut setup = Setup::pushed(&event("Reboot", r#"["web_0"]"#, SOON));
        setup.poll(1, "");
        // It was away before the restart, too.
        if offline == 3_600 {
            setup.poll(900, "");
        }
        let mut setup = setup.restarted(offline);
        assert!(!setup.has_news(), "no document was read");
        setup.poll(0, "");
        assert_eq!(setup.ends_sent(600), expected, "{offline}");
    }
}

#[test]
fn alert_that_fires_again_after_its_end_is_sent_as_firing() {
    for seconds in [1, 100, 200, 400, 1_000] {
        let mut setup = Setup::pushed(&freeze());
        setup.poll(1, "");
        setup.sent();
        setup.poll(seconds, "");
        setup.sent();
        setup.poll(1, &freeze());
        let [alert] = setup.sent().try_into().unwrap();
        assert!(!alert.is_resolved, "{seconds}");
        assert!(alert.ends_at > setup.now.wall.after(Duration::from_mins(10)));
        setup.poll(1, &freeze());
        assert!(!setup.has_news(), "{seconds}");
    }
}

#[test]
fn end_of_each_alert_has_the_words_of_the_event_as_it_is_then() {
    let started = event("Reboot", r#"["web_0"]"#, "").replace("Scheduled", "Started");
    let mut setup = Setup::pushed(&started);
    for _ in 0..32 {
        setup.poll(60, &started);
    }
    assert!(setup.sent().len() > 1, "also Stuck");
    setup.poll(1, "");
    let ends = setup.sent();
    assert!(ends.len() > 1);
    for end in ends {
        let summary = &end.annotations["summary"];
        assert!(
            end.is_resolved && summary.ends_with(" completed"),
            "{summary}"
        );
    }
}

#[test]
fn alert_of_an_event_whose_vms_were_unknown_ends_at_once_if_it_is_of_others() {
    let mut setup = Setup::pushed(&event("Preempt", "null", SOON));
    setup.poll(1, &event("Preempt", r#"["db_1"]"#, SOON));
    let [end] = setup.sent().try_into().unwrap();
    assert!(end.is_resolved && end.ends_at <= setup.now.wall);
    let summary = &end.annotations["summary"];
    assert!(
        summary.contains("db_1") && !summary.contains("web_0"),
        "{summary}"
    );
    setup.poll(1, &event("Preempt", r#"["db_1"]"#, SOON));
    assert!(setup.sent_again().is_empty(), "db_1 sends it now");
}

/// The VMs that it still names send the alert.
#[test]
fn alert_of_an_event_that_no_longer_names_this_vm_is_not_resolved_before_the_event_ends() {
    let mut setup = Setup::pushed(&event("Freeze", r#"["web_0","web_7"]"#, FAR));
    let left = event("Freeze", r#"["web_7"]"#, FAR);
    setup.poll(40, &left);
    let [end] = setup.sent().try_into().unwrap();
    let description = &end.annotations["description"];
    assert!(
        description.contains("it does not name web_0"),
        "{description}"
    );
    for _ in 0..26 {
        setup.poll(10, &left);
        assert!(setup.sent_again().is_empty());
    }
    setup.poll(1, "");
    assert_eq!(setup.ends_sent(600), [0]);
}

#[test]
fn alert_of_one_vm_is_sent_again_while_polls_fail_and_one_of_several_vms_is_not() {
    for (resources, is_sent) in [(r#"["web_0"]"#, true), (r#"["web_0","web_1"]"#, false)] {
        let mut setup = Setup::pushed(&event("Freeze", resources, FAR));
        for _ in 0..61 {
            setup.fail(1);
        }
        assert_eq!(
            setup.sent_again().len(),
            usize::from(is_sent),
            "{resources}"
        );
        // Its push failed before the polls did.
        let mut setup = Setup::new();
        setup.poll(0, &event("Freeze", resources, FAR));
        for _ in 0..61 {
            setup.fail(1);
        }
        assert_eq!(setup.sent().len(), 1, "{resources}");
    }
}

#[test]
fn restored_event_is_not_pushed_before_the_first_document() {
    let mut restored = Setup::pushed(&freeze()).restarted(240);
    restored.fail(1);
    assert!(!restored.has_news());
    restored.poll(1, &freeze());
    assert_eq!(restored.sent().len(), 1);
}
