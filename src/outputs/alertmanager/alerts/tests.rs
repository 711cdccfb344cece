use std::collections::BTreeSet;

use serde::Deserialize;

use super::*;
use crate::{
    azure::{
        document::{self, Answer},
        event::EventId,
    },
    core::{
        assessment::fixtures::{at, ended, freeze, moment, platform, snapshot, started, tracked},
        engine::{Engine, EngineConfig, Input, SavedState},
        lifecycle::{End, Outcome},
    },
};

const SOON: &str = "Tue, 17 Nov 2026 09:15:00 GMT";
const NO_DIFFERENCE: ClockDifference = ClockDifference {
    ahead: Duration::ZERO,
    behind: Duration::ZERO,
};

/// As an Alertmanager reads it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Alert {
    labels: Labels,
    annotations: Labels,
    starts_at: Timestamp,
    ends_at: Timestamp,
}

impl Alert {
    fn of(due: &DueAlert, snapshot: &Snapshot, clocks: ClockDifference, now: Moment) -> Self {
        serde_json::from_value(due.json(snapshot, clocks, now)).unwrap()
    }
}

/// An engine of `web_0` that reads documents.
struct Setup {
    engine: Engine,
    now: Moment,
}

impl Setup {
    fn new(saved: Option<SavedState>, now: Moment) -> Self {
        let config = EngineConfig {
            vm_name: Some(Arc::from("web_0")),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config, saved, now);
        Self { engine, now }
    }

    /// At nine o'clock, with a first document of these events.
    fn read(events: &str) -> Self {
        let nine = Timestamp::from_unix_seconds(1_794_906_000).unwrap();
        let mut setup = Self::new(None, Moment::new(nine, Duration::from_hours(1)));
        setup.poll(0, events);
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
        Self::new(Some(saved), self.now.after(Duration::from_secs(seconds)))
    }

    /// A document with these events, after some seconds.
    fn poll(&mut self, seconds: u64, events: &str) {
        let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{events}]}}"#);
        let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
        let result = Ok(Answer::Document {
            document,
            anomalies,
        });
        self.polled(seconds, result);
    }

    fn fail(&mut self, seconds: u64) {
        let error = crate::azure::RequestError {
            reason: crate::azure::FailureReason::Timeout,
            status: None,
            message: String::new(),
            retry_after: None,
            is_unsent: false,
        };
        self.polled(seconds, Err(error));
    }

    fn polled(&mut self, seconds: u64, result: Result<Answer, crate::azure::RequestError>) {
        self.now = self.now.after(Duration::from_secs(seconds));
        let (took, late) = (Duration::ZERO, Duration::ZERO);
        let input = Input::Polled { result, took, late };
        self.engine.handle(input, self.now);
    }

    fn due(&self) -> Vec<DueAlert> {
        let snapshot = self.engine.snapshot(self.now);
        due_alerts(&snapshot, &Labels::new(), &PushTiming::default(), self.now)
    }

    /// What is sent to an Alertmanager with such a clock.
    fn alerts(&self, clocks: ClockDifference) -> Vec<Alert> {
        let snapshot = self.engine.snapshot(self.now);
        let due = self.due().into_iter();
        due.map(|alert| Alert::of(&alert, &snapshot, clocks, self.now))
            .collect()
    }

    /// The alerts with the seconds until their end.
    fn told(&self) -> Vec<String> {
        self.told_with(NO_DIFFERENCE)
    }

    fn told_with(&self, clocks: ClockDifference) -> Vec<String> {
        let alerts = self.alerts(clocks).into_iter();
        let alerts = alerts.map(|alert| {
            let name = alert.labels["alertname"].trim_start_matches("AzureScheduledEvent");
            let event_type = &alert.labels["event_type"];
            let left = alert.ends_at.seconds_from(self.now.wall);
            format!("{name} {event_type} {left:+}")
        });
        alerts.collect()
    }
}

fn event(event_type: &str, resources: &str, not_before: &str) -> String {
    format!(
        r#"{{"EventId":"E1","EventStatus":"Scheduled","EventType":"{event_type}","Resources":{resources},"NotBefore":"{not_before}","DurationInSeconds":-1}}"#
    )
}

fn own(event_type: &str) -> String {
    event(event_type, r#"["web_0"]"#, SOON)
}

/// The seconds after a document, and what is sent then.
type Told<'a> = [(u64, &'a [&'a str])];

fn assert_told(setup: &mut Setup, document: &str, expected: &Told<'_>) {
    let mut passed = 0;
    for (seconds, expected) in expected {
        setup.poll(seconds - passed, document);
        passed = *seconds;
        assert_eq!(setup.told(), *expected, "{seconds} s after {document}");
    }
}

#[test]
fn alert_is_extended_until_the_end_and_resolved_when_the_rules_have_ended_it() {
    let mut setup = Setup::read(&own("Preempt"));
    assert_told(
        &mut setup,
        &own("Preempt"),
        &[
            (0, &["Preempt Preempt +900"]),
            (7, &["Preempt Preempt +900"]),
        ],
    );
    assert_told(
        &mut setup,
        "",
        &[
            (1, &["Preempt Preempt +150"]),
            (100, &["Preempt Preempt +51"]),
            (150, &["Preempt Preempt +1"]),
            (151, &[]),
            (240, &[]),
            (241, &["Preempt Preempt -240"]),
            (3_601, &["Preempt Preempt -3600"]),
            (7_200, &["Preempt Preempt -7199"]),
            (7_201, &[]),
        ],
    );
    // It was the same event, and fires again.
    let mut setup = Setup::read(&own("Preempt"));
    setup.poll(1, "");
    setup.poll(300, "");
    assert_told(
        &mut setup,
        &own("Preempt"),
        &[(1, &["Preempt Preempt +900"])],
    );
}

#[test]
fn alert_that_another_one_replaced_ends_at_once_and_fires_again_with_the_same_labels() {
    let mut setup = Setup::read(&own("Freeze"));
    assert_told(
        &mut setup,
        &own("Redeploy"),
        &[
            (1, &["Redeploy Redeploy +7200", "Freeze Freeze +0"]),
            (31, &["Redeploy Redeploy +7200", "Freeze Freeze -30"]),
        ],
    );
    assert_told(
        &mut setup,
        &own("Freeze"),
        &[(1, &["Freeze Freeze +900", "Redeploy Redeploy +0"])],
    );
}

/// The event goes on, but nobody is to act.
#[test]
fn alert_that_waits_for_an_approval_ends_when_the_event_starts() {
    let user = own("Reboot").replace(r#""EventId""#, r#""EventSource":"User","EventId""#);
    let started = user.replace("Scheduled", "Started").replace(SOON, "");
    let mut setup = Setup::read(&user);
    assert_told(
        &mut setup,
        &started,
        &[
            (5, &["UserInitiatedWaiting Reboot +150"]),
            (245, &["UserInitiatedWaiting Reboot -240"]),
        ],
    );
    let description = &setup.alerts(NO_DIFFERENCE)[0].annotations["description"];
    assert!(!description.contains("To do:"), "{description}");
}

#[test]
fn alert_of_an_event_whose_vms_were_unknown_ends_at_once_if_it_is_of_others() {
    let mut setup = Setup::read(&event("Preempt", "null", SOON));
    assert_eq!(setup.told(), ["Preempt Preempt +900"]);
    let others = event("Preempt", r#"["db_1"]"#, SOON);
    setup.poll(1, &others);
    let [end] = setup.alerts(NO_DIFFERENCE).try_into().unwrap();
    let summary = &end.annotations["summary"];
    assert!(
        summary.contains("db_1") && !summary.contains("web_0"),
        "{summary}"
    );
    // Then db_1 sends it.
    assert_told(
        &mut setup,
        &others,
        &[
            (0, &["Preempt Preempt +0"]),
            (29, &["Preempt Preempt -29"]),
            (30, &[]),
        ],
    );
}

#[test]
fn alert_of_an_event_that_no_longer_names_this_vm_is_left_to_those_that_it_names() {
    let mut setup = Setup::read(&event("Freeze", r#"["web_0","web_7"]"#, SOON));
    let left = event("Freeze", r#"["web_7"]"#, SOON);
    assert_told(&mut setup, &left, &[(1, &[]), (241, &[])]);
    assert_told(&mut setup, "", &[(1, &[]), (241, &[])]);
    let mut setup = Setup::read(&own("Freeze"));
    let left = event("Freeze", "[]", SOON);
    assert_told(
        &mut setup,
        &left,
        &[(1, &["Freeze Freeze +150"]), (241, &["Freeze Freeze -240"])],
    );
}

#[test]
fn alert_of_one_vm_is_sent_while_polls_fail_and_one_of_several_vms_for_a_minute() {
    for (resources, is_sent) in [(r#"["web_0"]"#, true), (r#"["web_0","web_1"]"#, false)] {
        let mut setup = Setup::read(&event("Freeze", resources, SOON));
        setup.fail(1);
        setup.fail(59);
        assert_eq!(setup.told().len(), 1, "{resources}");
        setup.fail(1);
        assert_eq!(setup.told().len(), usize::from(is_sent), "{resources}");
    }
}

#[test]
fn nothing_is_sent_before_the_first_document_of_a_process_and_then_also_ends_of_before() {
    for (offline, expected) in [
        (20, &["Reboot Reboot +130"][..]),
        (200, &[]),
        (400, &["Reboot Reboot -400"]),
        (7_300, &[]),
    ] {
        let mut setup = Setup::read(&own("Reboot"));
        setup.poll(1, "");
        let mut setup = setup.restarted(offline);
        setup.fail(0);
        assert_eq!(setup.told(), [""; 0], "{offline}");
        setup.poll(0, "");
        assert_eq!(setup.told(), expected, "{offline}");
    }
}

#[test]
fn times_hold_by_the_clock_of_alertmanager_too() {
    let clocks = |ahead, behind| ClockDifference {
        ahead: Duration::from_secs(ahead),
        behind: Duration::from_secs(behind),
    };
    let (ahead, behind, both) = (clocks(1_200, 0), clocks(0, 3_600), clocks(1_200, 3_600));
    let preempt = own("Preempt");
    let mut setup = Setup::read(&preempt);
    for (seconds, document, expected) in [
        (0, &*preempt, ["+900", "+2100", "+900", "+2100"]),
        (1, "", ["+150", "+1350", "+150", "+1350"]),
        (300, "", ["-300", "-300", "-3900", "-3900"]),
    ] {
        setup.poll(seconds, document);
        let ends = [NO_DIFFERENCE, ahead, behind, both].map(|clocks| setup.told_with(clocks));
        let expected = expected.map(|left| vec![format!("Preempt Preempt {left}")]);
        assert_eq!(ends, expected, "{seconds}");
    }
    let [alert] = setup.alerts(behind).try_into().unwrap();
    assert!(alert.starts_at <= alert.ends_at, "{alert:?}");
}

/// What is sent first does not wait for the others.
#[test]
fn alerts_that_fire_and_the_newest_changes_come_first() {
    let of = |id: &str| own("Freeze").replace("E1", id);
    let mut setup = Setup::read(&[of("E1"), of("E2"), of("E3")].join(","));
    setup.poll(1, &[of("E1"), of("E3")].join(","));
    setup.poll(1, &[of("E3"), of("E4")].join(","));
    let later = of("E3").replace("09:15", "09:16");
    setup.poll(1, &[later, of("E4"), of("E5"), of("E6")].join(","));
    let due = setup.due();
    let ids = due.iter().map(|alert| alert.labels["event_id"].as_str());
    let ids: Vec<_> = ids.collect();
    assert_eq!(ids, ["E3", "E5", "E6", "E4", "E1", "E2"]);
}

#[test]
fn end_of_each_alert_has_the_words_of_the_event_as_it_is_then() {
    let started = own("Reboot")
        .replace("Scheduled", "Started")
        .replace(SOON, "");
    let mut setup = Setup::read(&started);
    for _ in 0..32 {
        setup.poll(60, &started);
    }
    assert!(setup.told().len() > 1, "also Stuck");
    setup.poll(1, "");
    let ends = setup.alerts(NO_DIFFERENCE);
    assert!(ends.len() > 1);
    for end in ends {
        let summary = &end.annotations["summary"];
        assert!(summary.ends_with(" completed"), "{summary}");
    }
}

#[test]
fn alerts_of_ever_new_events_are_bounded_and_the_dropped_ends_counted() {
    let mut setup = Setup::read("");
    for poll in 0..6 {
        let events =
            (0..300).map(|number| own("Freeze").replace("E1", &format!("{poll} {number}")));
        setup.poll(1, &events.collect::<Vec<_>>().join(","));
    }
    assert_eq!(setup.due().len(), 300 + 1_000);
    assert_eq!(setup.engine.snapshot(setup.now).dropped_ends, 500);
}

fn alerts(snapshot: &mut Snapshot, now: Moment) -> Vec<Alert> {
    snapshot.poll.last_success = Some(now);
    let due = due_alerts(snapshot, &Labels::new(), &PushTiming::default(), now).into_iter();
    due.map(|alert| Alert::of(&alert, snapshot, NO_DIFFERENCE, now))
        .collect()
}

#[test]
fn alert_of_a_restart_that_is_due_outlives_the_time_in_which_the_vm_is_down() {
    let minutes_left = |tracked: TrackedEvent, now: i64| {
        let alerts = alerts(&mut snapshot([tracked]), moment(now));
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
fn end_is_not_before_the_start_after_the_clock_was_set_back() {
    let over = ended(tracked("Preempt", "Platform", Some(30)), -300);
    let alert = &alerts(&mut snapshot([over]), moment(-190))[0];
    assert_eq!(alert.starts_at, alert.ends_at);
}

#[test]
fn pushed_labels_and_annotations_have_the_bounds_of_the_metrics() {
    let mut tracked = tracked("Fre\neze\u{202e}", &"é\u{200b}".repeat(50), Some(600));
    tracked.shown.id = EventId::new("a\tb\u{7}");
    tracked.shown.description = Some("Maintenance\r\n\u{2067}".repeat(40).into());
    let mut snapshot = snapshot([tracked]);
    let [alert] = alerts(&mut snapshot, moment(0)).try_into().unwrap();
    let options = crate::outputs::metrics::MetricsOptions {
        scope: crate::core::snapshot::SeriesScope::Own,
        resources: false,
        process: false,
    };
    let now = snapshot.as_of;
    let format = crate::outputs::metrics::exposition::Format::OpenMetrics;
    let text =
        crate::outputs::metrics::render(&Arc::new(snapshot), format, options, &Arc::default(), now)
            .unwrap();
    let info = text
        .lines()
        .find(|line| line.starts_with("azure_scheduled_event_info{"))
        .unwrap();
    for name in ["event_id", "event_type", "event_source"] {
        let label = format!("{name}=\"{}\"", alert.labels[name].replace('\\', r"\\"));
        assert!(info.contains(&label), "{label} is not in {info}");
    }
    let (_, description) = info.split_once("description=\"").unwrap();
    let (description, _) = description.split_once('"').unwrap();
    assert_eq!(description.chars().count(), 256);
    let pushed = &alert.annotations["description"];
    assert!(
        pushed.contains(&format!(
            "Azure: \"{description}\"\nEvent: a\\u{{9}}b\\u{{7}}"
        )),
        "{pushed}"
    );
}

#[test]
fn alert_is_serialised_as_the_api_specifies() {
    let mut snapshot = snapshot([tracked("Preempt", "", Some(30))]);
    snapshot.poll.last_success = Some(moment(0));
    let due = &due_alerts(&snapshot, &Labels::new(), &PushTiming::default(), moment(0))[0];
    let mut json = due.json(&snapshot, NO_DIFFERENCE, moment(0));
    json["annotations"] = Value::Null;
    let expected = json!({
        "labels": {
            "alertname": "AzureScheduledEventPreempt", "severity": "critical", "event_type": "Preempt",
            "event_id": "A1B2C3D4-0000-4000-8000-000000000001",
        },
        "annotations": null,
        "startsAt": "1970-01-12T13:46:40.000Z",
        "endsAt": "1970-01-12T14:01:40.000Z",
    });
    assert_eq!(json, expected, "no empty label");
}

proptest::proptest! {
    #[test]
    fn labels_contain_neither_reporter_nor_progress(
        event_type in "[A-Za-z]{0,12}|Freeze|Reboot|Redeploy|Preempt|Terminate|SpotRebalanceRecommendation",
        source in "|Platform|User|[a-z]{1,8}",
        not_before in proptest::option::of(-100_000_i64..800_000),
        start in proptest::option::of(0_i64..900_000),
        end in proptest::option::of(0_i64..900_000),
        duration in proptest::option::of(0_u64..100),
        now in 0_i64..900_000,
    ) {
        let mut tracked = tracked(&event_type, &source, not_before);
        tracked.shown.duration_seconds = duration;
        tracked.started_at = start.map(at);
        tracked.end = end.map(|end| End { at: at(end), outcome: Outcome::Unknown });
        let alerts = alerts(&mut snapshot([tracked]), moment(now));
        for alert in &alerts {
            for (name, value) in &alert.labels {
                let is_known = ALERT_LABELS.contains(&name.as_ref());
                assert!(is_known && (!value.is_empty() || name == "event_type"), "{name}={value}");
            }
            assert!(alert.starts_at <= alert.ends_at);
        }
        let distinct: BTreeSet<_> = alerts.iter().map(|alert| &alert.labels).collect();
        assert_eq!(distinct.len(), alerts.len(), "one alert for one set of labels");
    }
}
