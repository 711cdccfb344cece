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
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    server::{self, ServerLimits},
    simulator::{Scenario, Simulator, SimulatorSettings, Vm},
    time::Clock,
};
use serde_json::Value;
use tokio::sync::oneshot;

const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";
/// For one response; generous, for slow machines.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A simulator that serves on a socket until it is dropped.
pub(crate) struct TestServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

impl TestServer {
    pub(crate) fn start(scenarios: &[&str], speed: f64) -> Self {
        Self::with(
            scenarios
                .iter()
                .map(|name| Scenario::named(name).unwrap())
                .collect(),
            speed,
        )
    }

    pub(crate) fn with(scenarios: Vec<Scenario>, speed: f64) -> Self {
        Self::of_vm(Vm::new(None), scenarios, speed)
    }

    pub(crate) fn of_vm(vm: Vm, scenarios: Vec<Scenario>, speed: f64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let settings = SimulatorSettings {
                scenarios,
                speed,
                vm,
            };
            let simulator = Simulator::new(settings, Clock::start());
            let limits = ServerLimits {
                drain_timeout: Duration::from_millis(100),
                ..ServerLimits::default()
            };
            ready.send(()).unwrap();
            runtime.block_on(async {
                let stopped = async {
                    let _gone = stopped.await;
                };
                server::serve(listener, simulator, limits, stopped)
                    .await
                    .unwrap();
            });
        });
        is_ready.recv().unwrap();
        Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
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
            self.address
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
        self.address.to_string()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the simulator panicked");
        }
    }
}

fn parse(answer: &[u8]) -> Option<Response> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(Response {
        status,
        headers: headers.collect(),
        body: answer[end + 4..].to_vec(),
    })
}

/// Calls `condition` until it is true.
pub(crate) fn until(deadline: Duration, condition: impl FnMut() -> bool) {
    let clock = Clock::start();
    let end = clock.now().monotonic + deadline;
    let mut results = std::iter::repeat_with(condition);
    let in_time = results
        .by_ref()
        .take_while(|_| clock.now().monotonic < end)
        .any(|result| result);
    assert!(in_time, "not within {deadline:?}");
}
