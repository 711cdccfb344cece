//! The engine and the web service of one VM with simulated clocks. The test performs the effects.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex},
    time::Duration,
};

use azure_scheduled_events_exporter::{
    FailureReason, Identity, RequestError,
    approval::ApprovalPolicy,
    engine::{EngineConfig, Input, SavedState},
    server::ServerLimits,
    time::{Moment, MonotonicTime, Timestamp},
};
use serde_json::{Value, json};

use super::{
    driven_engine::{self, DrivenEngine, failure, through_a_file},
    events::event,
    exporter::Metrics,
};
use crate::web::test_server::{TestServer, settings};

pub(crate) const ID: &str = "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265";

/// Called `web_0`. The time is in seconds after 2026-11-17 09:00 UTC.
pub(crate) struct SimulatedVm {
    policy: ApprovalPolicy,
    /// That of `--vm.name`.
    pub(crate) vm_name: Option<String>,
    poll_interval: Duration,
    /// The number of boots so far.
    pub(crate) boot: u32,
    driven: DrivenEngine,
    server: TestServer,
    /// The clock of the web service.
    clock: Arc<Mutex<Moment>>,
    /// The start of the process.
    started: MonotonicTime,
}

impl Deref for SimulatedVm {
    type Target = DrivenEngine;

    fn deref(&self) -> &DrivenEngine {
        &self.driven
    }
}

impl DerefMut for SimulatedVm {
    fn deref_mut(&mut self) -> &mut DrivenEngine {
        &mut self.driven
    }
}

fn start() -> Moment {
    Moment::new(
        Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        Duration::from_hours(498_585),
    )
}

/// Both clocks after this many seconds.
pub(crate) fn moment(seconds: u64) -> Moment {
    start().after(Duration::from_secs(seconds))
}

/// The wall clock after this many seconds.
pub(crate) fn at(seconds: u64) -> Timestamp {
    moment(seconds).wall
}

/// A restart of `web_0` and `web_1` requested by a user, with a notice of 15 minutes and some members replaced.
pub(crate) fn restart(members: &Value) -> Value {
    let mut event = event(&json!({
        "EventType": "Reboot",
        "Resources": ["web_0", "web_1"],
        "NotBefore": at(900).rfc1123(),
        "EventSource": "User",
    }));
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

pub(crate) fn started() -> Value {
    restart(&json!({"EventStatus": "Started", "NotBefore": ""}))
}

/// A 500.
pub(crate) fn error() -> RequestError {
    RequestError {
        status: Some(500),
        message: "HTTP 500".to_owned(),
        ..failure(FailureReason::Status5xx)
    }
}

/// A 400.
pub(crate) fn refusal() -> RequestError {
    RequestError {
        status: Some(400),
        message: "HTTP 400".to_owned(),
        ..failure(FailureReason::Status4xx)
    }
}

/// A request without an answer.
pub(crate) fn timeout() -> RequestError {
    failure(FailureReason::Timeout)
}

impl SimulatedVm {
    pub(crate) fn new(policy: ApprovalPolicy) -> Self {
        Self::with(policy, Some("web_0"), Duration::from_secs(1))
    }

    pub(crate) fn with(
        policy: ApprovalPolicy,
        vm_name: Option<&str>,
        poll_interval: Duration,
    ) -> Self {
        let (now, boot) = (start(), 0);
        let config = EngineConfig {
            approvals: policy,
            poll_interval,
            ..driven_engine::config(vm_name, boot)
        };
        let driven = DrivenEngine::new(config, None, now);
        let clock = Arc::new(Mutex::new(now));
        let service_clock = Arc::clone(&clock);
        let server = TestServer::with_clock(
            driven.snapshot(),
            settings(),
            ServerLimits::default(),
            move || *service_clock.lock().unwrap(),
        );
        Self {
            policy,
            vm_name: vm_name.map(str::to_owned),
            poll_interval,
            boot,
            driven,
            server,
            clock,
            started: now.monotonic,
        }
    }

    /// Lets both clocks run until this many seconds after the start, by the monotonic clock.
    pub(crate) fn wait_until(&mut self, seconds: u64) {
        let elapsed = self.now.monotonic - self.started;
        let rest = Duration::from_secs(seconds).checked_sub(elapsed);
        self.now = self.now.after(rest.expect("the time does not go back"));
    }

    pub(crate) fn set_wall_clock(&mut self, wall: Timestamp) {
        self.now.wall = wall;
    }

    /// A poll that returns these events.
    pub(crate) fn poll(&mut self, events: &[Value]) {
        self.poll_incarnation(&json!(1), events);
    }

    /// [`Self::poll`] with another `DocumentIncarnation`.
    pub(crate) fn poll_incarnation(&mut self, incarnation: &Value, events: &[Value]) {
        let body = json!({ "DocumentIncarnation": incarnation, "Events": events });
        self.poll_body(body.to_string().as_bytes());
    }

    /// Instance metadata name this VM.
    pub(crate) fn identify(&mut self) {
        self.identified(Identity {
            name: "web_0".to_owned(),
            ..Identity::default()
        });
    }

    /// IMDS answers the requested approval: 200, or 400.
    pub(crate) fn answer(&mut self, is_accepted: bool) {
        self.end_approval(if is_accepted { Ok(()) } else { Err(refusal()) });
    }

    /// The request of the approval ends.
    pub(crate) fn end_approval(&mut self, result: Result<(), RequestError>) {
        let ids = self.requested.remove(0);
        let took = Duration::ZERO;
        self.handle(Input::ApprovalSent { ids, result, took });
    }

    /// The last state that was saved.
    pub(crate) fn saved_state(&self) -> SavedState {
        self.saved.clone().unwrap()
    }

    /// The process ends, and another one restores the state from a file after `elapsed`.
    pub(crate) fn restart_process(&mut self, elapsed: Duration) {
        let now = Moment {
            wall: self.now.wall.after(elapsed),
            ..start()
        };
        self.saved = Some(through_a_file(&self.saved_state(), now.wall));
        let config = EngineConfig {
            approvals: self.policy,
            poll_interval: self.poll_interval,
            ..driven_engine::config(self.vm_name.as_deref(), self.boot)
        };
        self.restart(config, now);
        self.started = self.now.monotonic;
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        *self.clock.lock().unwrap() = self.now;
        let published = Arc::clone(&self.published);
        self.server.snapshot.send_replace(published);
        let response = self.server.get(path, &[]);
        (response.status, response.text().to_owned())
    }

    /// The line of `/-/serving`, and whether it is a 200.
    pub(crate) fn serving(&self) -> (bool, String) {
        let (status, body) = self.get("/-/serving");
        (status == 200, body.trim_end().to_owned())
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.serving().0
    }

    pub(crate) fn page(&self) -> String {
        self.get("/").1
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics(self.get("/metrics").1)
    }

    /// `/api/v1/events`.
    pub(crate) fn whole_json(&self) -> Value {
        serde_json::from_str(&self.get("/api/v1/events").1).unwrap()
    }

    /// The event in `/api/v1/events`.
    pub(crate) fn json(&self) -> Value {
        self.whole_json()["events"][0].clone()
    }

    /// `decision`, or `reason` of an event that is withheld.
    pub(crate) fn decision(&self) -> String {
        let approval = self.json()["approval"].clone();
        let is_withheld = approval["decision"] == "withheld";
        let member = if is_withheld { "reason" } else { "decision" };
        approval[member].as_str().unwrap_or_default().to_owned()
    }
}
