//! Scrapes and probes on new connections succeed while clients of other addresses hold as many connections as they can
//! get.

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

use azure_scheduled_events_exporter::{server::ServerLimits, snapshot::Snapshot};

use super::{
    one_event,
    snapshot::{engine, event, poll},
    test_server::{TestServer, settings},
};
use crate::support::connect_from;

/// No time limit frees a connection during the test.
fn limits() -> ServerLimits {
    ServerLimits {
        max_connections: 48,
        header_timeout: Duration::from_hours(1),
        response_timeout: Duration::from_hours(1),
        send_timeout: Duration::from_hours(1),
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
    fn open(self, last: u8, server: SocketAddr) -> TcpStream {
        let mut stream = connect_from(last, server);
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
    /// As many of each kind, at 127.0.0.2 and the next addresses.
    fn start(server: SocketAddr, addresses: u8, kinds: &[(BadClient, usize)]) -> Self {
        let mut clients = Vec::new();
        for (kind, count) in kinds {
            let lasts = (2..2 + addresses).cycle().take(*count);
            clients.extend(lasts.map(|last| (*kind, last, kind.open(last, server))));
        }
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_stopped);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::yield_now();
                for (kind, last, stream) in &mut clients {
                    if kind.is_closed(stream) {
                        *stream = kind.open(*last, server);
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
    let all = [
        (BadClient::HalfSent, 100),
        (BadClient::Silent, 100),
        (BadClient::NonReading, 32),
        (BadClient::HalfClosed, 32),
    ];
    for (snapshot, addresses, kinds) in [
        (one_event(), 1, &all[..]),
        (one_event(), 6, &all[..2]),
        (many_events(), 1, &[(BadClient::NonReading, 64)]),
        (many_events(), 6, &[(BadClient::NonReading, 64)]),
    ] {
        let server = TestServer::with(snapshot, settings(), limits());
        let bad_clients = BadClients::start(server.address, addresses, kinds);
        for number in 0..3 {
            for (path, status) in [
                ("/metrics", 200),
                ("/-/healthy", 200),
                ("/-/serving", 200),
                ("/nowhere", 404),
            ] {
                let response = server.get(path, &["Connection: close"]);
                assert_eq!(response.status, status, "{path} {number}");
            }
        }
        drop(bad_clients);
    }
}

#[test]
fn probes_do_not_wait_for_clients_of_their_address_that_do_not_read() {
    let server = TestServer::with(many_events(), settings(), limits());
    let clients: Vec<_> = (0..8)
        .map(|_| BadClient::NonReading.open(1, server.address))
        .collect();
    clients[0].set_nonblocking(false).unwrap();
    clients[0].peek(&mut [0]).unwrap();
    for path in ["/-/healthy", "/-/ready", "/-/serving"] {
        assert_eq!(
            server.get(path, &["Connection: close"]).status,
            200,
            "{path}"
        );
    }
}
