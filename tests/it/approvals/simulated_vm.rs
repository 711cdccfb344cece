//! The engine and the web service of one VM with simulated clocks. The test performs the effects.

use std::{sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    approval::ApprovalPolicy,
    document::{self, Answer},
    engine::{Effect, Engine, EngineConfig, Input, LogEntry, SavedState},
    event::EventId,
    otlp::{settings::OtlpSettings, trace::Span},
    snapshot::{FailureReason, RequestError},
    state::{Directory, Found},
    time::{Moment, Timestamp},
};
use serde_json::{Value, json};

use crate::web::test_server::TestServer;

pub(super) const ID: &str = "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265";

/// Called `web_0`. The time is in seconds after 2026-11-17 09:00 UTC.
pub(super) struct SimulatedVm {
    policy: ApprovalPolicy,
    engine: Engine,
    server: TestServer,
    now: Moment,
    saved: Option<SavedState>,
    /// The requested approvals that the test has not answered.
    pub(super) requested: Vec<EventId>,
    pub(super) log: Vec<LogEntry>,
    pub(super) spans: Vec<Span>,
}

fn start() -> Moment {
    Moment {
        wall: Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        monotonic: Duration::from_secs(1_000),
    }
}

/// The wall clock after this many seconds.
pub(super) fn at(seconds: u64) -> Timestamp {
    start().after(Duration::from_secs(seconds)).wall
}

/// A restart of `web_0` and `web_1` requested by a user, with a notice of 15 minutes and some members replaced.
pub(super) fn restart(members: &Value) -> Value {
    let mut event = json!({
        "EventId": ID,
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_0", "web_1"],
        "NotBefore": at(900).rfc1123(),
        "Description": "",
        "EventSource": "User",
        "DurationInSeconds": -1,
    });
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

pub(super) fn started() -> Value {
    restart(&json!({"EventStatus": "Started", "NotBefore": ""}))
}

fn engine(policy: ApprovalPolicy, restored: Option<SavedState>, now: Moment) -> Engine {
    let endpoint = |name: &str| {
        (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://127.0.0.1:9".to_owned())
    };
    let config = EngineConfig {
        vm_name: Some("web_0".into()),
        approvals: policy,
        poll_interval: Duration::from_secs(1),
        boot_id: None,
        traces: OtlpSettings::from_env(endpoint).unwrap(),
        is_persistent: true,
    };
    Engine::new(config, restored, now)
}

impl SimulatedVm {
    pub(super) fn new(policy: ApprovalPolicy) -> Self {
        let now = start();
        let engine = engine(policy, None, now);
        let server = TestServer::start(engine.snapshot(now));
        Self {
            policy,
            engine,
            server,
            now,
            saved: None,
            requested: Vec::new(),
            log: Vec::new(),
            spans: Vec::new(),
        }
    }

    /// Lets both clocks run until this many seconds after the start, by the monotonic clock.
    pub(super) fn wait_until(&mut self, seconds: u64) {
        let elapsed = self.now.monotonic.saturating_sub(start().monotonic);
        let rest = Duration::from_secs(seconds).checked_sub(elapsed);
        self.now = self.now.after(rest.expect("the time does not go back"));
    }

    pub(super) fn set_wall_clock(&mut self, wall: Timestamp) {
        self.now.wall = wall;
    }

    pub(super) fn wall_clock(&self) -> Timestamp {
        self.now.wall
    }

    fn handle(&mut self, input: Input) {
        for effect in self.engine.handle(input, self.now) {
            match effect {
                Effect::Log(entry) => self.log.push(entry),
                Effect::AppendSpans(batch) => self.spans.extend(batch.spans),
                Effect::SaveState(saved) => {
                    self.saved = Some(*saved);
                    self.handle(Input::StateWritten(Ok(())));
                }
                Effect::Approve(id) => self.requested.push(id),
                Effect::Publish(snapshot) => {
                    self.server.snapshot.send_replace(snapshot);
                }
                Effect::DiscardForeignState => panic!("{effect:?}"),
            }
        }
    }

    /// A poll that returns these events.
    pub(super) fn poll(&mut self, events: &[Value]) {
        let body = json!({ "DocumentIncarnation": 1, "Events": events }).to_string();
        let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
        let answer = Answer::Document {
            document,
            anomalies,
        };
        let took = Duration::ZERO;
        self.handle(Input::Polled {
            result: Ok(answer),
            took,
        });
    }

    /// IMDS answers the requested approval.
    pub(super) fn answer(&mut self, is_accepted: bool) {
        let refused = RequestError {
            reason: FailureReason::Status5xx,
            status: Some(500),
            message: "HTTP 500".to_owned(),
            retry_after: None,
        };
        let id = self.requested.remove(0);
        let result = if is_accepted { Ok(()) } else { Err(refused) };
        let took = Duration::ZERO;
        self.handle(Input::ApprovalSent { id, result, took });
    }

    /// The process ends, and another one restores the state from a file after `elapsed`. Its monotonic clock starts at the
    /// same value as that of the first one.
    pub(super) fn restart_process(&mut self, elapsed: Duration) {
        let folder = tempfile::tempdir().unwrap();
        let mut directory = Directory::open(folder.path()).unwrap();
        directory.write(self.saved.as_ref().unwrap()).unwrap();
        self.now = Moment {
            wall: self.now.wall.after(elapsed),
            ..start()
        };
        let Found::State(saved) = directory.read(self.now.wall) else {
            panic!("no state")
        };
        self.requested.clear();
        self.engine = engine(self.policy, Some(*saved), self.now);
        let snapshot = self.engine.snapshot(self.now);
        self.server.snapshot.send_replace(Arc::new(snapshot));
    }

    fn get(&self, path: &str) -> (u16, String) {
        let elapsed = self.now.monotonic.saturating_sub(start().monotonic);
        *self.server.seconds.lock().unwrap() = elapsed.as_secs();
        let response = self.server.get(path, &[]);
        (response.status, response.text().to_owned())
    }

    /// The line of `/-/serving`, and whether it is a 200.
    pub(super) fn serving(&self) -> (bool, String) {
        let (status, body) = self.get("/-/serving");
        (status == 200, body.trim_end().to_owned())
    }

    pub(super) fn is_serving(&self) -> bool {
        self.serving().0
    }

    pub(super) fn page(&self) -> String {
        self.get("/").1
    }

    /// The event in `/api/v1/events`.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str::<Value>(&self.get("/api/v1/events").1).unwrap()["events"][0].clone()
    }

    /// `decision`, or `reason` of an event that is withheld.
    pub(super) fn decision(&self) -> String {
        let approval = self.json()["approval"].clone();
        let is_withheld = approval["decision"] == "withheld";
        let member = if is_withheld { "reason" } else { "decision" };
        approval[member].as_str().unwrap_or_default().to_owned()
    }

    /// The decisions and transitions in the log, in their order.
    pub(super) fn logged(&self) -> Vec<String> {
        let entry = |entry: &LogEntry| match entry {
            LogEntry::Approval { approval, .. } => {
                let debug = format!("{approval:?}");
                debug.split([' ', '(']).next().map(str::to_owned)
            }
            LogEntry::Transition(transition) => Some(transition.kind.as_str().to_owned()),
            _ => None,
        };
        self.log.iter().filter_map(entry).collect()
    }
}
