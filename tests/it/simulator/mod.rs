//! The simulator: over sockets as a client sees it, and its scenarios without waiting.

mod control;
mod documentation;
mod exporter;
mod faults;
mod page;
mod play;
mod samples;
mod service;
mod timelines;
mod versions;

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    server::ServerLimits,
    simulator::{OsType, Scenario, Simulator, Vm},
    time::Clock,
};

use serde_json::{Value, json};

use crate::support::served::{Response, Served};

fn linux_vm(name: Option<&str>) -> Vm {
    Vm::new(name, None, OsType::Linux)
}

/// The body of an approval.
fn approval(ids: &[&Value]) -> String {
    let requests: Vec<_> = ids.iter().map(|id| json!({ "EventId": id })).collect();
    json!({ "StartRequests": requests }).to_string()
}

const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";
/// For one response; generous, for slow machines.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A simulator that serves on a socket until it is dropped.
pub(crate) struct TestServer(Served);

impl TestServer {
    pub(crate) fn start(scenarios: &[&str], speed: f64) -> Self {
        let scenarios = scenarios.iter().map(|name| Scenario::named(name).unwrap());
        Self::with(scenarios.collect(), speed)
    }

    pub(crate) fn with(scenarios: Vec<Scenario>, speed: f64) -> Self {
        Self::of_vm(linux_vm(None), scenarios, speed)
    }

    pub(crate) fn of_vm(vm: Vm, scenarios: Vec<Scenario>, speed: f64) -> Self {
        let limits = ServerLimits {
            drain_timeout: Duration::from_millis(100),
            ..ServerLimits::default()
        };
        let simulator = Simulator::new(vm, speed, scenarios, Clock::start());
        Self(Served::start(simulator, limits))
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.0.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends one request on a new connection. `None` if the connection closes without a response.
    pub(crate) fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Response> {
        let mut request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.0.address
        );
        for (name, value) in headers {
            write!(request, "{name}: {value}\r\n").unwrap();
        }
        if !body.is_empty() || method == "POST" {
            write!(request, "Content-Length: {}\r\n", body.len()).unwrap();
        }
        request.push_str("\r\n");
        request.push_str(body);
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).ok()?;
        parse(&response)
    }

    pub(crate) fn get(&self, target: &str) -> Response {
        self.send("GET", target, &[("Metadata", "true")], "")
            .unwrap()
    }

    pub(crate) fn post(&self, target: &str, body: &str) -> Response {
        self.send("POST", target, &[("Metadata", "true")], body)
            .unwrap()
    }

    pub(crate) fn host(&self) -> String {
        self.0.address.to_string()
    }
}

fn parse(answer: &[u8]) -> Option<Response> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    Some(Response {
        body: answer[end + 4..].to_vec(),
        ..Response::of_head(head.split("\r\n"))?
    })
}
