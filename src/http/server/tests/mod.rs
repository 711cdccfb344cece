mod crowding;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream as Client},
    sync::mpsc,
    thread::JoinHandle,
};

use tokio::sync::{Notify, oneshot};

use super::*;

/// Longer than any step takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
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

/// As `nc -N` does. The server has read the end of the requests before the handler has responded.
#[test]
fn client_that_has_closed_its_side_gets_its_responses() {
    let server = start(limits());
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
    let server = start(limits());
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\nHost: loc"] {
        let mut client = server.connect();
        client.write_all(bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_close(&mut client).unwrap(), b"");
    }
}

#[test]
fn each_phase_of_a_connection_has_its_own_limit() {
    let (head, handler, idle) = (TEST_TIMEOUT, TEST_TIMEOUT, TEST_TIMEOUT);
    for (what, [header_timeout, handler_timeout, idle_timeout], is_used, bytes) in [
        ("no byte", [SHORT, handler, idle], false, ""),
        ("half a head", [SHORT, handler, idle], false, "GET / HT"),
        (
            "half of the next head",
            [SHORT, handler, idle],
            true,
            "GET / HT",
        ),
        ("no further request", [head, handler, SHORT], true, ""),
        (
            "slow handler",
            [head, SHORT, idle],
            false,
            "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ),
    ] {
        let server = start(ServerLimits {
            header_timeout,
            handler_timeout,
            idle_timeout,
            ..limits()
        });
        let mut client = server.connect();
        if is_used {
            send(&mut client, "/");
            receive(&client);
        }
        client.write_all(bytes.as_bytes()).unwrap();
        assert_eq!(read_to_close(&mut client).unwrap(), b"", "{what}");
    }
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
