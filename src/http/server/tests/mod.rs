mod crowding;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::mpsc,
    thread::JoinHandle,
};

use tokio::sync::Notify;

use super::*;

/// Longer than any step takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than any test takes. Then the server closes its sockets, so that what waits for it fails.
const DEADLINE: Duration = Duration::from_mins(2);
/// A limit that a test waits out.
const SHORT: Duration = Duration::from_millis(150);

/// More than a socket takes of a client that does not read.
const LARGE: usize = 16 * 1024 * 1024;

/// `/slow` reports the request and responds after `release` is notified. `/large` has a body of [`LARGE`] bytes.
struct TestHandler {
    slow_requests: mpsc::Sender<()>,
    release: Arc<Notify>,
}

#[async_trait]
impl Handler for TestHandler {
    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        match request.uri().path() {
            "/abort" => return Err(Abort),
            "/large" => return Ok(Response::new(Full::from("x".repeat(LARGE)))),
            "/slow" => {
                self.slow_requests.send(()).unwrap();
                self.release.notified().await;
            }
            _ => {}
        }
        Ok(Response::new(Full::from("body")))
    }

    fn has_large_body(&self, request: &Request<Incoming>) -> bool {
        request.uri().path() == "/large"
    }
}

/// A server on its own thread.
struct TestServer {
    address: SocketAddr,
    stop: CancellationToken,
    thread: JoinHandle<io::Result<()>>,
    slow_request: mpsc::Receiver<()>,
    release: Arc<Notify>,
}

fn start() -> TestServer {
    start_with(|_| {})
}

/// No time limit ends before the test, unless it is changed.
fn start_with(change: impl FnOnce(&mut ServerLimits)) -> TestServer {
    let mut limits = ServerLimits {
        header_timeout: TEST_TIMEOUT,
        response_timeout: TEST_TIMEOUT,
        send_timeout: TEST_TIMEOUT,
        drain_timeout: TEST_TIMEOUT,
        ..ServerLimits::default()
    };
    change(&mut limits);
    let stop = CancellationToken::new();
    let (slow_requests, slow_request) = mpsc::channel();
    let release = Arc::new(Notify::new());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let handler = Arc::new(TestHandler {
        slow_requests,
        release: Arc::clone(&release),
    });
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let served = serve(listener, handler, limits, stopped);
        runtime.block_on(async { timeout(DEADLINE, served).await? })
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
    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        client.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        client
    }

    /// A client whose request is in the handler.
    fn busy(&self) -> TcpStream {
        let mut client = self.connect();
        send(&mut client, "/slow");
        self.slow_request.recv_timeout(TEST_TIMEOUT).unwrap();
        client
    }

    /// A client that has received its response.
    fn idle(&self) -> TcpStream {
        let mut client = self.connect();
        send(&mut client, "/");
        receive(&client);
        client
    }

    fn stop(self) -> io::Result<()> {
        self.stop.cancel();
        self.thread.join().unwrap()
    }
}

fn send(client: &mut TcpStream, path: &str) {
    write!(client, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
}

/// The head of one response, in lower case, and its body.
fn receive(client: &TcpStream) -> (String, String) {
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
fn read_to_close(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).map(|_| rest)
}

/// As `nc -N` does. The server has read the end of the requests before the handler has responded.
#[test]
fn client_that_has_closed_its_side_gets_its_responses() {
    let server = start();
    let mut client = server.busy();
    send(&mut client, "/");
    client.shutdown(Shutdown::Write).unwrap();
    drop(server.idle());
    server.release.notify_one();
    assert_eq!(receive(&client).1, "body");
    assert_eq!(receive(&client).1, "body");
    assert_eq!(read_to_close(&mut client).unwrap(), b"");
}

#[test]
fn client_that_closes_its_side_in_a_request_head_is_closed_at_once() {
    let server = start();
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\nHost: loc"] {
        let mut client = server.connect();
        client.write_all(bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_close(&mut client).unwrap(), b"");
    }
}

#[test]
fn connection_without_a_complete_head_in_time_is_closed() {
    let server = start_with(|it| it.header_timeout = SHORT);
    let in_handler = server.busy();
    for (is_used, bytes) in [
        (false, ""),
        (false, "GET / HT"),
        (true, "GET / HT"),
        (true, ""),
    ] {
        let mut client = if is_used {
            server.idle()
        } else {
            server.connect()
        };
        client.write_all(bytes.as_bytes()).unwrap();
        assert_eq!(
            read_to_close(&mut client).unwrap(),
            b"",
            "{is_used} {bytes}"
        );
    }
    server.release.notify_one();
    assert_eq!(receive(&in_handler).1, "body", "its head was complete");
}

#[test]
fn response_that_is_not_made_in_time_is_503() {
    let server = start_with(|it| it.response_timeout = SHORT);
    let (head, body) = receive(&server.busy());
    assert!(
        head.starts_with("http/1.1 503 ") && head.contains("retry-after: 10"),
        "{head}"
    );
    assert!(body.starts_with("503: "), "{body}");
}

#[test]
fn response_that_is_not_read_in_time_is_cut_off() {
    let server = start_with(|it| it.send_timeout = SHORT);
    let mut unread = server.connect();
    send(&mut unread, "/large");
    unread.peek(&mut [0]).unwrap();
    // The next one of the address waits for it.
    let mut next = server.connect();
    send(&mut next, "/large");
    next.peek(&mut [0]).unwrap();
    let error = read_to_close(&mut unread)
        .map(|read| read.len())
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn client_that_does_not_read_responses_without_a_body_is_disconnected() {
    let short = Duration::from_millis(100);
    let server = start_with(|it| {
        it.header_timeout = short;
        it.response_timeout = short;
        it.send_timeout = short;
    });
    let mut client = server.connect();
    let requests = "HEAD / HTTP/1.1\r\nHost: test\r\n\r\n".repeat(1_000);
    let error = loop {
        if let Err(error) = client.write_all(requests.as_bytes()) {
            break error;
        }
    };
    let ends = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
    assert!(ends.contains(&error.kind()), "{error}");
}

#[test]
fn shutdown_finishes_responses_and_closes_silent_and_idle_connections() {
    let server = start_with(|it| {
        it.header_timeout = Duration::from_hours(1);
        it.drain_timeout = Duration::from_hours(1);
    });
    let mut silent = server.connect();
    // Connections are accepted in order: once this one is served, the silent one is served too.
    let mut idle = server.idle();
    let busy = server.busy();
    server.stop.cancel();
    assert_eq!(read_to_close(&mut idle).unwrap(), b"");
    assert_eq!(read_to_close(&mut silent).unwrap(), b"");
    server.release.notify_one();
    let (head, body) = receive(&busy);
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(body, "body");
    server.thread.join().unwrap().unwrap();
    assert!(
        TcpStream::connect(server.address).is_err(),
        "the socket is closed"
    );
}

#[test]
fn drain_has_a_deadline() {
    let server = start_with(|it| it.drain_timeout = SHORT);
    let mut busy = server.busy();
    server.stop().unwrap();
    assert_eq!(read_to_close(&mut busy).unwrap(), b"");
}

#[test]
fn abort_resets_the_connection_without_an_answer() {
    let server = start();
    let mut client = server.connect();
    send(&mut client, "/abort");
    assert_eq!(
        read_to_close(&mut client).unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
}

#[test]
fn invalid_and_oversized_heads_get_an_error() {
    let server = start();
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
