//! Scrapes and probes on new connections succeed while other clients hold as many connections as they can get.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use azure_scheduled_events_exporter::{server::ServerLimits, snapshot::Snapshot, time::Clock};

use super::{
    one_event,
    snapshot::{at, engine, event, poll},
    test_server::{TestServer, settings},
};

/// No time limit frees a connection during the test.
fn limits() -> ServerLimits {
    ServerLimits {
        max_connections: 48,
        header_timeout: Duration::from_hours(1),
        handler_timeout: Duration::from_hours(1),
        idle_timeout: Duration::from_hours(1),
        ..ServerLimits::default()
    }
}

#[derive(Clone, Copy)]
enum BadClient {
    Silent,
    HalfSent,
    NonReading,
    /// Does not read either, and has closed its side.
    HalfClosed,
}

impl BadClient {
    fn open(self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        // A write fails where the server has closed the connection, or does not read any more.
        match self {
            Self::Silent => {}
            Self::HalfSent => drop(stream.write(b"GET /metrics HTTP/1.1\r\nHost: te")),
            Self::NonReading | Self::HalfClosed => {
                let request = "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n";
                drop(stream.write(request.repeat(500).as_bytes()));
            }
        }
        if matches!(self, Self::HalfClosed) {
            stream.shutdown(Shutdown::Write).ok();
        }
        stream
    }

    fn is_closed(self, stream: &mut TcpStream) -> bool {
        let read = match self {
            // Its socket still has data to read.
            Self::NonReading | Self::HalfClosed => return stream.take_error().unwrap().is_some(),
            Self::Silent | Self::HalfSent => stream.read(&mut [0]),
        };
        !matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

/// Clients that open their connection again as soon as it is closed.
struct BadClients {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BadClients {
    fn start(address: SocketAddr, kinds: &[(BadClient, usize)]) -> Self {
        let mut clients = Vec::new();
        for (kind, count) in kinds {
            clients.extend((0..*count).map(|_| (*kind, kind.open(address))));
        }
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_stopped);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::yield_now();
                for (kind, stream) in &mut clients {
                    if kind.is_closed(stream) {
                        *stream = kind.open(address);
                    }
                }
            }
        });
        Self {
            is_stopped,
            thread: Some(thread),
        }
    }
}

impl Drop for BadClients {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn scrapes_succeed_beside(kinds: &[(BadClient, usize)]) {
    let server = TestServer::with(one_event(), settings(), limits());
    let bad_clients = BadClients::start(server.address, kinds);
    for number in 0..10 {
        let response = server.get("/metrics", &["Connection: close"]);
        assert_eq!(response.status, 200, "scrape {number}");
        assert!(response.text().contains("azure_scheduled_events_up"));
    }
    drop(bad_clients);
}

#[test]
fn scrapes_succeed_beside_bad_clients_of_all_kinds() {
    scrapes_succeed_beside(&[
        (BadClient::HalfSent, 100),
        (BadClient::Silent, 100),
        (BadClient::NonReading, 32),
        (BadClient::HalfClosed, 32),
    ]);
}

/// More than 128 KiB of metrics.
fn many_events() -> Snapshot {
    let events: Vec<_> = (0..300)
        .map(|number| {
            let id = format!("{number:08X}-52DA-4F6E-9C38-A40D7E91B265");
            event(&id, "Maintenance.")
        })
        .collect();
    poll(&mut engine(), 1, &events)
}

/// 64 clients that do not read, on a server whose bodies in flight have this limit.
fn beside_unread_metrics(max_response_bytes: usize) -> (TestServer, Vec<TcpStream>) {
    let limits = ServerLimits {
        max_connections: 1024,
        max_response_bytes,
        ..limits()
    };
    let server = TestServer::with(many_events(), settings(), limits);
    let clients: Vec<_> = (0..64)
        .map(|_| BadClient::NonReading.open(server.address))
        .collect();
    for client in &clients {
        client.set_nonblocking(false).unwrap();
        client.peek(&mut [0]).unwrap();
    }
    (server, clients)
}

fn assert_all_open(clients: &[TcpStream]) {
    let closed = clients
        .iter()
        .filter(|client| client.take_error().unwrap().is_some());
    assert_eq!(closed.count(), 0, "clients were evicted");
}

/// Status of a page and of errors, each on a new connection.
fn assert_probes_and_errors(server: &TestServer) {
    for (path, status) in [("/-/healthy", 200), ("/-/serving", 200), ("/nowhere", 404)] {
        let response = server.get(path, &["Connection: close"]);
        assert_eq!(response.status, status, "{path}");
    }
    let mut connection = server.connect();
    connection.send(b"GET /api/v1/events HTTP/1.1\r\nHost: other.example\r\n\r\n");
    assert_eq!(connection.response("GET").unwrap().status, 403);
}

#[test]
fn probes_and_errors_do_not_wait_for_clients_that_do_not_read() {
    let (server, clients) = beside_unread_metrics(1);
    assert_probes_and_errors(&server);
    // A response that waits for others evicts them.
    assert_all_open(&clients);
}

#[test]
fn body_that_many_clients_do_not_read_is_in_memory_once() {
    let (server, clients) = beside_unread_metrics(2 * 1024 * 1024);
    // The next scrape has a body of its own.
    *server.seconds.lock().unwrap() += 1;
    for path in ["/metrics", "/api/v1/events", "/"] {
        let response = server.get(path, &["Connection: close"]);
        assert_eq!(response.status, 200, "{path}");
        assert!(response.body.len() > 64 * 1024, "{path}");
    }
    assert_all_open(&clients);
}

#[test]
fn scrapes_and_probes_succeed_beside_clients_that_do_not_read_large_metrics() {
    let limits = ServerLimits {
        max_response_bytes: 1024 * 1024,
        ..limits()
    };
    let clock = Clock::start();
    let start = clock.now().monotonic;
    let now = move || at(0).after(clock.now().monotonic.saturating_sub(start));
    let server = TestServer::with_clock(many_events(), settings(), limits, now);
    let bad_clients = BadClients::start(server.address, &[(BadClient::NonReading, 64)]);
    for number in 0..5 {
        let response = server.get("/metrics", &["Connection: close"]);
        assert_eq!(response.status, 200, "scrape {number}");
        assert!(response.body.len() > 128 * 1024);
        assert_probes_and_errors(&server);
    }
    drop(bad_clients);
}
