//! Scrapes on new connections succeed while other clients hold as many connections as they can get.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use azure_scheduled_events_exporter::server::ServerLimits;

use super::{
    one_event,
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
}

impl BadClient {
    fn open(self, address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        // A write fails where the server has closed the connection, or does not read any more.
        match self {
            Self::Silent => {}
            Self::HalfSent => drop(stream.write(b"GET /metrics HTTP/1.1\r\nHost: te")),
            Self::NonReading => {
                let request = "GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n";
                drop(stream.write(request.repeat(500).as_bytes()));
            }
        }
        stream
    }

    fn is_closed(self, stream: &mut TcpStream) -> bool {
        let read = match self {
            // Its socket still has data to read.
            Self::NonReading => return stream.take_error().unwrap().is_some(),
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
fn scrapes_succeed_beside_clients_that_send_half_a_request() {
    scrapes_succeed_beside(&[(BadClient::HalfSent, 100)]);
}

#[test]
fn scrapes_succeed_beside_clients_that_send_nothing() {
    scrapes_succeed_beside(&[(BadClient::Silent, 100)]);
}

#[test]
fn scrapes_succeed_beside_clients_that_do_not_read() {
    scrapes_succeed_beside(&[(BadClient::NonReading, 64)]);
}

#[test]
fn scrapes_succeed_beside_bad_clients_of_all_kinds() {
    scrapes_succeed_beside(&[
        (BadClient::HalfSent, 100),
        (BadClient::Silent, 100),
        (BadClient::NonReading, 32),
    ]);
}
