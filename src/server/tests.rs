use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream as Client},
    pin::pin,
    sync::mpsc,
    task::{Context, Poll, Waker},
    thread::JoinHandle,
};

use tokio::sync::{Notify, oneshot};

use super::*;

/// Longer than any step takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
/// More than the buffers of a connection hold.
const LARGE: usize = 16 * 1024 * 1024;
/// A limit that a test waits out.
const SHORT: Duration = Duration::from_millis(150);

fn limits() -> ServerLimits {
    ServerLimits {
        header_timeout: TEST_TIMEOUT,
        handler_timeout: TEST_TIMEOUT,
        idle_timeout: TEST_TIMEOUT,
        drain_timeout: TEST_TIMEOUT,
        ..ServerLimits::default()
    }
}

/// A server on its own thread. `/slow` reports the request and responds after `release` is notified.
struct TestServer {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<io::Result<()>>,
    slow_request: mpsc::Receiver<()>,
    release: Arc<Notify>,
}

fn start(limits: ServerLimits) -> TestServer {
    let (stop, stopped) = oneshot::channel::<()>();
    let (slow_requests, slow_request) = mpsc::channel();
    let release = Arc::new(Notify::new());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let released = Arc::clone(&release);
    let handler = move |request: Request<Incoming>| {
        let (slow_requests, released) = (slow_requests.clone(), Arc::clone(&released));
        async move {
            match request.uri().path() {
                "/abort" => return Err(Abort),
                "/large" => return Ok(Response::new(Full::from(vec![b'.'; LARGE]))),
                "/slow" => {
                    slow_requests.send(()).unwrap();
                    released.notified().await;
                }
                _ => {}
            }
            Ok(Response::new(Full::from("body")))
        }
    };
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let stop = async { drop(stopped.await) };
            serve(listener, handler, limits, stop).await
        })
    });
    TestServer {
        address,
        stop,
        thread,
        slow_request,
        release,
    }
}

impl TestServer {
    fn connect(&self) -> Client {
        let client = Client::connect(self.address).unwrap();
        client.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        client
    }

    /// A client whose request is in the handler.
    fn busy(&self) -> Client {
        let mut client = self.connect();
        send(&mut client, "/slow");
        self.slow_request.recv_timeout(TEST_TIMEOUT).unwrap();
        client
    }

    /// A client that has received its response.
    fn idle(&self) -> Client {
        let mut client = self.connect();
        send(&mut client, "/");
        receive(&client);
        client
    }

    fn stop(self) -> io::Result<()> {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

fn send(client: &mut Client, path: &str) {
    write!(client, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
}

/// The head of one response, in lower case, and its body.
fn receive(client: &Client) -> (String, String) {
    let mut reader = BufReader::with_capacity(1, client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(
            reader.read_line(&mut head).unwrap(),
            0,
            "closed in the head: {head:?}"
        );
    }
    let head = head.to_lowercase();
    let length = head
        .split_once("content-length: ")
        .unwrap()
        .1
        .lines()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// Everything until the server closes the connection. A timeout is an error.
fn read_to_close(client: &mut Client) -> io::Result<Vec<u8>> {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).map(|_| rest)
}

#[test]
fn one_connection_serves_many_requests() {
    let server = start(limits());
    let mut client = server.connect();
    for _ in 0..3 {
        send(&mut client, "/");
        let (head, body) = receive(&client);
        assert!(head.starts_with("http/1.1 200 ok"), "{head}");
        assert_eq!(body, "body");
    }
    server.stop().unwrap();
}

#[test]
fn incomplete_request_head_times_out() {
    let server = start(ServerLimits {
        header_timeout: SHORT,
        ..limits()
    });
    let mut client = server.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    assert_eq!(read_to_close(&mut client).unwrap(), b"");
    let mut silent = server.connect();
    assert_eq!(read_to_close(&mut silent).unwrap(), b"", "no byte was sent");
}

#[test]
fn idle_limit_and_header_limit_are_independent() {
    let server = start(ServerLimits {
        idle_timeout: SHORT,
        ..limits()
    });
    let mut idle = server.idle();
    assert_eq!(read_to_close(&mut idle).unwrap(), b"");

    let server = start(ServerLimits {
        header_timeout: SHORT,
        ..limits()
    });
    let mut slow = server.idle();
    slow.write_all(b"GET / HT").unwrap();
    assert_eq!(read_to_close(&mut slow).unwrap(), b"");
}

#[test]
fn part_of_a_head_behind_a_request_has_the_header_limit() {
    let server = start(ServerLimits {
        header_timeout: SHORT,
        ..limits()
    });
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut with_the_request = server.connect();
    write!(with_the_request, "{request}GET / HTTP/1.1\r\n").unwrap();
    assert_eq!(receive(&with_the_request).1, "body");
    assert_eq!(read_to_close(&mut with_the_request).unwrap(), b"");

    let mut during_the_response = server.connect();
    send(&mut during_the_response, "/large");
    during_the_response.read_exact(&mut [0]).unwrap();
    during_the_response.write_all(b"GET / HT").unwrap();
    let rest = read_to_close(&mut during_the_response).unwrap();
    assert!(rest.len() >= LARGE, "the response is complete");
}

#[test]
fn complete_requests_in_advance_do_not_have_the_header_limit_afterwards() {
    let server = start(ServerLimits {
        header_timeout: SHORT,
        ..limits()
    });
    let mut client = server.connect();
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.write_all(request.repeat(2).as_bytes()).unwrap();
    let body = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody";
    let mut with_body = server.connect();
    with_body.write_all(body.as_bytes()).unwrap();
    assert_eq!(receive(&client).1, "body");
    for idle in [&mut client, &mut with_body] {
        assert_eq!(receive(idle).1, "body");
        idle.set_read_timeout(Some(2 * SHORT)).unwrap();
        let error = read_to_close(idle).unwrap_err();
        let is_open = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind());
        assert!(is_open, "{error}");
    }
}

#[test]
fn slow_handler_times_out() {
    let server = start(ServerLimits {
        handler_timeout: SHORT,
        ..limits()
    });
    let mut client = server.connect();
    send(&mut client, "/slow");
    assert_eq!(read_to_close(&mut client).unwrap(), b"");
}

#[test]
fn connection_beyond_the_limit_waits_for_a_slot() {
    let server = start(ServerLimits {
        max_connections: 2,
        ..limits()
    });
    let _busy = [server.busy(), server.busy()];
    let mut third = server.connect();
    send(&mut third, "/slow");
    assert!(
        server.slow_request.recv_timeout(SHORT).is_err(),
        "the third has no slot yet"
    );
    server.release.notify_one();
    server.slow_request.recv_timeout(TEST_TIMEOUT).unwrap();
}

#[test]
fn idle_connection_is_closed_when_another_client_waits() {
    let server = start(ServerLimits {
        max_connections: 2,
        ..limits()
    });
    let mut idle = server.idle();
    let busy = server.busy();
    let mut third = server.connect();
    send(&mut third, "/");
    assert_eq!(receive(&third).1, "body");
    assert_eq!(
        read_to_close(&mut idle).unwrap(),
        b"",
        "the idle one is closed"
    );
    server.release.notify_one();
    assert_eq!(receive(&busy).1, "body", "the busy one stays open");
}

#[test]
fn silent_connection_is_closed_when_another_client_waits() {
    let server = start(ServerLimits {
        max_connections: 2,
        header_timeout: Duration::from_hours(1),
        ..limits()
    });
    let mut silent = [server.connect(), server.connect()];
    drop(server.idle());
    assert_eq!(read_to_close(&mut silent[0]).unwrap(), b"");
}

#[test]
fn new_connection_in_the_last_slot_has_time_for_its_request() {
    let server = start(ServerLimits {
        max_connections: 1,
        ..limits()
    });
    for _ in 0..50 {
        drop(server.idle());
    }
}

#[test]
fn silent_connection_does_not_delay_the_shutdown() {
    let server = start(ServerLimits {
        header_timeout: Duration::from_hours(1),
        drain_timeout: Duration::from_hours(1),
        ..limits()
    });
    let mut silent = server.connect();
    // Connections are accepted in order: once this one is served, the silent one has its slot.
    let mut idle = server.idle();
    server.stop.send(()).unwrap();
    assert_eq!(read_to_close(&mut idle).unwrap(), b"");
    assert_eq!(read_to_close(&mut silent).unwrap(), b"");
    server.thread.join().unwrap().unwrap();
}

#[test]
fn connections_below_the_idle_limit_are_closed_when_another_client_waits() {
    let server = start(ServerLimits {
        max_connections: 2,
        ..limits()
    });
    let _idle = [server.idle(), server.idle()];
    let mut third = server.connect();
    send(&mut third, "/");
    // The idle limit is far longer than this test.
    assert_eq!(receive(&third).1, "body");
}

#[test]
fn shutdown_finishes_responses_and_closes_idle_connections() {
    let server = start(limits());
    let mut idle = server.idle();
    let busy = server.busy();
    server.stop.send(()).unwrap();
    assert_eq!(read_to_close(&mut idle).unwrap(), b"");
    server.release.notify_one();
    let (head, body) = receive(&busy);
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(body, "body");
    server.thread.join().unwrap().unwrap();
    assert!(
        Client::connect(server.address).is_err(),
        "the socket is closed"
    );
}

#[test]
fn drain_has_a_deadline() {
    let server = start(ServerLimits {
        drain_timeout: SHORT,
        ..limits()
    });
    let mut busy = server.busy();
    server.stop().unwrap();
    assert_eq!(read_to_close(&mut busy).unwrap(), b"");
}

#[test]
fn abort_resets_the_connection_without_an_answer() {
    let server = start(limits());
    let mut client = server.connect();
    send(&mut client, "/abort");
    assert_eq!(
        read_to_close(&mut client).unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
}

#[test]
fn invalid_and_oversized_heads_get_an_error() {
    let server = start(limits());
    let head_of = |request: String| {
        let mut client = server.connect();
        // The server may close before it has read everything.
        client.write_all(request.as_bytes()).ok();
        let mut bytes = [0; 16];
        let read = client.read(&mut bytes).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    };
    let lines = "a: b\r\n".repeat(65);
    let many = head_of(format!("GET / HTTP/1.1\r\n{lines}\r\n"));
    assert!(many.starts_with("HTTP/1.1 431"), "{many}");
    let nonsense = head_of("\u{1}\u{2}\u{3}\r\n\r\n".to_owned());
    assert!(nonsense.starts_with("HTTP/1.1 400"), "{nonsense}");
    let large = head_of(format!(
        "GET / HTTP/1.1\r\na: {}\r\n\r\n",
        "b".repeat(100_000)
    ));
    assert!(
        large.is_empty() || large.starts_with("HTTP/1.1 431"),
        "{large}"
    );
    let mut client = server.connect();
    send(&mut client, "/");
    assert_eq!(receive(&client).1, "body");
}

#[test]
fn idle_connection_in_the_last_slot_stays_open_while_no_client_waits() {
    let server = start(ServerLimits {
        max_connections: 1,
        ..limits()
    });
    let mut client = server.connect();
    for _ in 0..20 {
        send(&mut client, "/");
        assert_eq!(receive(&client).1, "body");
    }
}

#[test]
fn idle_connection_stays_open_when_the_waiting_client_has_found_a_slot() {
    let server = start(ServerLimits {
        max_connections: 1,
        ..limits()
    });
    let mut first = server.connect();
    write!(
        first,
        "GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    server.slow_request.recv_timeout(TEST_TIMEOUT).unwrap();
    let mut second = server.connect();
    send(&mut second, "/");
    server.release.notify_one();
    assert_eq!(receive(&first).1, "body");
    for _ in 0..20 {
        assert_eq!(receive(&second).1, "body");
        send(&mut second, "/");
    }
}

fn half_sent(server: &TestServer) -> Client {
    let mut client = server.connect();
    client.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    client
}

#[test]
fn connections_without_a_complete_request_are_evicted_oldest_first() {
    let server = start(ServerLimits {
        max_connections: 3,
        ..limits()
    });
    let mut oldest = half_sent(&server);
    let mut middle = server.connect();
    let mut idle = server.idle();
    let fourth = server.idle();
    assert_eq!(read_to_close(&mut oldest).unwrap(), b"", "half a request");
    let fifth = server.idle();
    assert_eq!(read_to_close(&mut middle).unwrap(), b"", "no request");
    send(&mut idle, "/");
    assert_eq!(receive(&idle).1, "body", "it is not the oldest");
    drop((fourth, fifth));
}

#[test]
fn response_that_is_not_read_is_evicted_when_another_client_waits() {
    let server = start(ServerLimits {
        max_connections: 1,
        ..limits()
    });
    let mut deaf = server.connect();
    send(&mut deaf, "/large");
    let mut other = server.connect();
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body");
    let read = read_to_close(&mut deaf);
    assert!(
        read.is_err() || read.unwrap().len() < LARGE,
        "it is cut off"
    );
}

#[test]
fn responses_in_flight_have_a_limit() {
    let server = start(ServerLimits {
        max_response_bytes: LARGE,
        ..limits()
    });
    let mut deaf = server.connect();
    send(&mut deaf, "/large");
    // The server has begun to send.
    deaf.read_exact(&mut [0]).unwrap();
    let mut other = server.connect();
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body", "while the other does not read");
    let read = read_to_close(&mut deaf);
    assert!(
        read.is_err() || read.unwrap().len() < LARGE,
        "it is cut off"
    );
    let mut reader = server.connect();
    send(&mut reader, "/large");
    assert_eq!(receive(&reader).1.len(), LARGE, "a client that reads");
}

#[test]
fn client_with_requests_in_advance_lets_others_go_first() {
    let server = start(limits());
    let mut eager = server.connect();
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    eager.write_all(request.repeat(200).as_bytes()).unwrap();
    let mut other = server.connect();
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body");
    for _ in 0..200 {
        assert_eq!(receive(&eager).1, "body");
    }
}

/// Only Linux has all of 127.0.0.0/8 on its loopback interface.
#[cfg(target_os = "linux")]
#[test]
fn address_with_more_than_its_share_loses_its_connections_first() {
    let server = start(ServerLimits {
        max_connections: 4,
        ..limits()
    });
    let from = |address: [u8; 4]| {
        let kind = socket2::Type::STREAM;
        let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&server.address.into()).unwrap();
        let client = Client::from(socket);
        client.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        client
    };
    let mut other = from([127, 0, 0, 2]);
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body");
    for _ in 0..20 {
        drop(server.idle());
    }
    let many: Vec<_> = (0..20).map(|_| server.idle()).collect();
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body", "the oldest of all stays open");
    drop(many);
}

#[test]
fn connections_are_limited_by_the_number_of_open_files() {
    let within = |open_files, servers| {
        let limits = ServerLimits::default().within(open_files, 36, servers);
        limits.max_connections
    };
    assert_eq!(within(64, 1), 28);
    assert_eq!(within(64, 2), 14);
    assert_eq!(within(1024, 1), 988);
    assert_eq!(within(1024, 2), 494);
    assert_eq!(within(1_048_576, 1), 1024);
    assert_eq!(within(16, 1), MIN_CONNECTIONS);
}

/// Runs no timer, so that only notifications make progress.
fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn waiting_responses_begin_in_order_when_one_has_been_sent() {
    let slots = Arc::new(ConnectionSlots::new(8, 1));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let sending = slots.acquire(peer).await;
    sending.activity.enter(ConnectionPhase::Sending, 1);
    let waiting = [slots.acquire(peer).await, slots.acquire(peer).await];
    let mut first = pin!(waiting[0].wait_for_response_capacity());
    let mut second = pin!(waiting[1].wait_for_response_capacity());
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());

    sending.activity.enter(ConnectionPhase::Idle, 0);
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(first.as_mut()).is_ready());
    waiting[0].activity.enter(ConnectionPhase::Sending, 1);
    assert!(poll_once(second.as_mut()).is_pending());
    waiting[0].activity.enter(ConnectionPhase::Idle, 0);
    assert!(poll_once(second.as_mut()).is_ready());
}

#[tokio::test]
async fn response_of_a_closed_connection_is_no_longer_in_flight() {
    let slots = Arc::new(ConnectionSlots::new(8, 1));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let sending = slots.acquire(peer).await;
    sending.activity.enter(ConnectionPhase::Sending, 1);
    let waiting = slots.acquire(peer).await;
    let mut response = pin!(waiting.wait_for_response_capacity());
    assert!(poll_once(response.as_mut()).is_pending());
    drop(sending);
    assert!(poll_once(response.as_mut()).is_ready());
}
