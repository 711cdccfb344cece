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
        max_response_bytes: 1024 * 1024,
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

#[test]
fn scrapes_and_probes_succeed_beside_bad_clients_of_all_kinds() {
    let kinds = [
        (BadClient::HalfSent, 100),
        (BadClient::Silent, 100),
        (BadClient::NonReading, 32),
        (BadClient::HalfClosed, 32),
    ];
    let paths = [
        ("/metrics", 200),
        ("/-/healthy", 200),
        ("/-/serving", 200),
        ("/nowhere", 404),
    ];
    for (snapshot, kinds, paths) in [
        (one_event(), &kinds[..], &paths[..1]),
        (many_events(), &[(BadClient::NonReading, 64)], &paths),
    ] {
        let clock = Clock::start();
        let start = clock.now().monotonic;
        let now = move || at(0).after(clock.now().monotonic - start);
        let server = TestServer::with_clock(snapshot, settings(), limits(), now);
        let bad_clients = BadClients::start(server.address, kinds);
        for number in 0..5 {
            for (path, status) in paths {
                let response = server.get(path, &["Connection: close"]);
                assert_eq!(response.status, *status, "{path} {number}");
            }
        }
        drop(bad_clients);
    }
}

/// A response that waits for others evicts them.
#[test]
fn neither_small_responses_nor_a_shared_body_wait_for_clients_that_do_not_read() {
    // The scrapes after a second have a body of their own.
    for (max_response_bytes, seconds, paths) in [
        (1, 0, &["/-/healthy", "/-/serving", "/nowhere"][..]),
        (2 * 1024 * 1024, 1, &["/metrics", "/api/v1/events", "/"]),
    ] {
        let limits = ServerLimits {
            max_connections: 1024,
            max_response_bytes,
            ..limits()
        };
        let server = TestServer::with(many_events(), settings(), limits);
        let mut clients: Vec<_> = (0..64)
            .map(|_| BadClient::NonReading.open(server.address))
            .collect();
        for client in &mut clients {
            client.set_nonblocking(false).unwrap();
            client.peek(&mut [0]).unwrap();
        }
        *server.seconds.lock().unwrap() = seconds;
        for path in paths {
            let response = server.get(path, &["Connection: close"]);
            assert!([200, 404].contains(&response.status), "{path}");
        }
        let is_closed = |client: &TcpStream| client.take_error().unwrap().is_some();
        assert!(!clients.iter().any(is_closed), "clients were evicted");
    }
}
