//! The simulated Azure: over sockets as a client sees it, and its scenarios played through without waiting.

mod control;
mod documentation;
mod faults;
mod page;
mod play;
mod service;
mod timelines;

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
    simulator::{Scenario, Simulator, SimulatorSettings},
    time::Clock,
};
use serde_json::Value;
use tokio::sync::oneshot;

/// Longer than any answer takes, on any machine that builds this.
const PATIENCE: Duration = Duration::from_mins(1);

/// A simulator that is served; it ends with this value.
pub(crate) struct Served {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Got {
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

impl Served {
    /// These built-in scenarios, at this speed.
    pub(crate) fn playing(scenarios: &[&str], speed: f64) -> Self {
        Self::with(
            scenarios
                .iter()
                .map(|name| Scenario::named(name).unwrap())
                .collect(),
            speed,
        )
    }

    pub(crate) fn with(scenarios: Vec<Scenario>, speed: f64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let simulator = Simulator::new(
                SimulatorSettings::new(scenarios, speed, None),
                Clock::start(),
            );
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
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// One request on a connection of its own; `None` where the connection ends without an answer.
    pub(crate) fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Got> {
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
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        parse(&answer)
    }

    pub(crate) fn get(&self, target: &str) -> Got {
        self.send("GET", target, &[("Metadata", "true")], "")
            .unwrap()
    }

    pub(crate) fn post(&self, target: &str, body: &str) -> Got {
        self.send("POST", target, &[("Metadata", "true")], body)
            .unwrap()
    }

    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Served {
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

fn parse(answer: &[u8]) -> Option<Got> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(Got {
        status,
        headers: headers.collect(),
        body: answer[end + 4..].to_vec(),
    })
}

/// Asks until it is so.
pub(crate) fn until(deadline: Duration, is_so: impl FnMut() -> bool) {
    let clock = Clock::start();
    let mut answers = std::iter::repeat_with(is_so);
    let in_time = answers
        .by_ref()
        .take_while(|_| clock.now().monotonic < deadline)
        .any(|answer| answer);
    assert!(in_time, "not within {deadline:?}");
}
