use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream as Client},
    sync::mpsc,
    thread::JoinHandle,
};

use tokio::sync::oneshot;

use super::*;

/// Longer than anything here takes on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// A limit that a test waits for.
const SHORT: Duration = Duration::from_millis(150);

fn limits() -> ServerLimits {
    ServerLimits {
        header_time: PATIENCE,
        answer: PATIENCE,
        idle: PATIENCE,
        drain: PATIENCE,
        ..ServerLimits::default()
    }
}

/// A server on a thread of its own. `/slow` says that it was asked and answers when it is told to.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<io::Result<()>>,
    asked: mpsc::Receiver<()>,
    release: Arc<Notify>,
}

fn start(limits: ServerLimits) -> Running {
    let (stop, stopped) = oneshot::channel::<()>();
    let (asked_in, asked) = mpsc::channel();
    let release = Arc::new(Notify::new());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let released = Arc::clone(&release);
    let handler = move |request: Request<Incoming>| {
        let (asked, released) = (asked_in.clone(), Arc::clone(&released));
        async move {
            match request.uri().path() {
                "/abort" => return Err(Abort),
                "/slow" => {
                    asked.send(()).unwrap();
                    released.notified().await;
                }
                _ => {}
            }
            Ok(Response::new(Full::from("answer")))
        }
    };
    let ended = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let stop = async { drop(stopped.await) };
            serve(listener, handler, limits, stop).await
        })
    });
    Running {
        address,
        stop,
        ended,
        asked,
        release,
    }
}

impl Running {
    fn connect(&self) -> Client {
        let client = Client::connect(self.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client
    }

    /// A client whose request is being answered, until the server is told to.
    fn busy(&self) -> Client {
        let mut client = self.connect();
        ask(&mut client, "/slow");
        self.asked.recv_timeout(PATIENCE).unwrap();
        client
    }

    /// A client that has had its answer.
    fn idle(&self) -> Client {
        let mut client = self.connect();
        ask(&mut client, "/");
        answer(&client);
        client
    }

    fn stop(self) -> io::Result<()> {
        self.stop.send(()).unwrap();
        self.ended.join().unwrap()
    }
}

fn ask(client: &mut Client, path: &str) {
    write!(client, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
}

/// One answer: its head, in lower case, and its body.
fn answer(client: &Client) -> (String, String) {
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

/// What comes until the other side closes. A time-out is an error, not a close.
fn rest(client: &mut Client) -> io::Result<Vec<u8>> {
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).map(|_| rest)
}

#[test]
fn one_connection_serves_many_requests() {
    let server = start(limits());
    let mut client = server.connect();
    for _ in 0..3 {
        ask(&mut client, "/");
        let (head, body) = answer(&client);
        assert!(head.starts_with("http/1.1 200 ok"), "{head}");
        assert_eq!(body, "answer");
    }
    server.stop().unwrap();
}

#[test]
fn head_of_a_request_that_does_not_end_is_closed() {
    let server = start(ServerLimits {
        header_time: SHORT,
        ..limits()
    });
    let mut client = server.connect();
    client.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
    assert_eq!(rest(&mut client).unwrap(), b"");
    let mut silent = server.connect();
    assert_eq!(rest(&mut silent).unwrap(), b"", "nothing was sent at all");
}

#[test]
fn idle_connection_is_closed_and_a_slow_head_has_no_idle_time() {
    let server = start(ServerLimits {
        idle: SHORT,
        ..limits()
    });
    let mut idle = server.idle();
    assert_eq!(rest(&mut idle).unwrap(), b"");

    let server = start(ServerLimits {
        header_time: SHORT,
        ..limits()
    });
    let mut slow = server.idle();
    slow.write_all(b"GET / HT").unwrap();
    assert_eq!(rest(&mut slow).unwrap(), b"");
}

#[test]
fn handler_that_takes_too_long_is_given_up() {
    let server = start(ServerLimits {
        answer: SHORT,
        ..limits()
    });
    let mut client = server.connect();
    ask(&mut client, "/slow");
    assert_eq!(rest(&mut client).unwrap(), b"");
}

#[test]
fn more_connections_than_places_wait_until_one_ends() {
    let server = start(ServerLimits {
        connections: 2,
        ..limits()
    });
    let _busy = [server.busy(), server.busy()];
    let mut third = server.connect();
    ask(&mut third, "/slow");
    assert!(
        server.asked.recv_timeout(SHORT).is_err(),
        "the third has no place yet"
    );
    server.release.notify_one();
    server.asked.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn idle_connection_makes_room_when_all_places_are_taken() {
    let server = start(ServerLimits {
        connections: 2,
        ..limits()
    });
    let mut idle = server.idle();
    let busy = server.busy();
    let mut third = server.connect();
    ask(&mut third, "/");
    assert_eq!(answer(&third).1, "answer");
    assert_eq!(rest(&mut idle).unwrap(), b"", "the idle one made room");
    server.release.notify_one();
    assert_eq!(answer(&busy).1, "answer", "the busy one was left alone");
}

#[test]
fn clients_that_never_say_anything_make_room_too() {
    let server = start(ServerLimits {
        connections: 2,
        header_time: Duration::from_hours(1),
        ..limits()
    });
    let mut silent = [server.connect(), server.connect()];
    drop(server.idle());
    assert_eq!(rest(&mut silent[0]).unwrap(), b"");
}

#[test]
fn client_that_takes_the_last_place_is_given_time_to_ask() {
    let server = start(ServerLimits {
        connections: 1,
        ..limits()
    });
    for _ in 0..50 {
        drop(server.idle());
    }
}

#[test]
fn client_that_never_says_anything_does_not_delay_the_end() {
    let server = start(ServerLimits {
        header_time: Duration::from_hours(1),
        drain: Duration::from_hours(1),
        ..limits()
    });
    let mut silent = server.connect();
    // Accepted in turn: once this one is served, the silent one has its place.
    let mut idle = server.idle();
    server.stop.send(()).unwrap();
    assert_eq!(rest(&mut idle).unwrap(), b"");
    assert_eq!(rest(&mut silent).unwrap(), b"");
    server.ended.join().unwrap().unwrap();
}

#[test]
fn clients_that_are_never_idle_for_long_cannot_keep_another_one_out() {
    let server = start(ServerLimits {
        connections: 2,
        ..limits()
    });
    let _idle = [server.idle(), server.idle()];
    let mut third = server.connect();
    ask(&mut third, "/");
    // Nobody is idle for as long as the limit, which is far longer than this test.
    assert_eq!(answer(&third).1, "answer");
}

#[test]
fn answers_under_way_go_out_after_a_stop_and_idle_connections_end() {
    let server = start(limits());
    let mut idle = server.idle();
    let busy = server.busy();
    server.stop.send(()).unwrap();
    assert_eq!(rest(&mut idle).unwrap(), b"");
    server.release.notify_one();
    let (head, body) = answer(&busy);
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(body, "answer");
    server.ended.join().unwrap().unwrap();
    assert!(
        Client::connect(server.address).is_err(),
        "nothing listens any more"
    );
}

#[test]
fn drain_has_a_deadline() {
    let server = start(ServerLimits {
        drain: SHORT,
        ..limits()
    });
    let mut busy = server.busy();
    server.stop().unwrap();
    assert_eq!(rest(&mut busy).unwrap(), b"");
}

#[test]
fn abort_resets_the_connection_without_an_answer() {
    let server = start(limits());
    let mut client = server.connect();
    ask(&mut client, "/abort");
    assert_eq!(
        rest(&mut client).unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
}

#[test]
fn heads_that_are_too_large_or_no_http_get_an_error_and_harm_nobody() {
    let server = start(limits());
    let head_of = |request: String| {
        let mut client = server.connect();
        // The server may answer and close while we still write.
        let _closed_early = client.write_all(request.as_bytes());
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
    ask(&mut client, "/");
    assert_eq!(answer(&client).1, "answer");
}
