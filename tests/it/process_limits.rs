//! Limits of the operating system for a process, signals, systemd: the exporter continues to poll and ends in order.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    os::{linux::net::SocketAddrExt as _, unix::net::SocketAddr},
    process::Command,
};

use tokio::{net::UnixDatagram, time::timeout};

use crate::support::{
    DEADLINE, FakeImds, Reply, connect_from,
    exporter::Metrics,
    process::{PROGRAM, Process, page},
    wait_until,
};

const NOTHING: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const FREEZE: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT","Description":"","EventSource":"Platform","DurationInSeconds":9}]}"#;

/// Starts the program after a shell command that sets a limit.
fn start_after(shell: &str, imds: &FakeImds, arguments: &[&str]) -> Process {
    let script = format!("{shell}; exec \"$0\" \"$@\"");
    let imds_url = format!("--imds.url={}", imds.base());
    Process::start_as(
        Command::new("sh")
            .args(["-c", &script, PROGRAM])
            .args(["--web.listen-address=127.0.0.1:0", &imds_url])
            .arg("--imds.poll-interval=200ms")
            .args(arguments),
    )
}

async fn metrics(address: &str) -> Metrics {
    Metrics(page(address, "/metrics").await.unwrap())
}

/// A start with `Type=notify` does not wait for IMDS. The third message shows that the watchdog gets more than the first.
#[tokio::test]
async fn systemd_is_told_that_the_exporter_runs_while_imds_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    let imds = TcpListener::bind("127.0.0.1:0").unwrap();
    let imds_url = format!("--imds.url=http://{}", imds.local_addr().unwrap());
    let mut exporter = Process::start_as(
        Command::new(PROGRAM)
            .args(["--web.listen-address=127.0.0.1:0", &imds_url])
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "0"),
    );
    for _ in 0..3 {
        let mut message = [0; 100];
        let received = timeout(DEADLINE, systemd.recv(&mut message)).await;
        let length = received.unwrap().unwrap();
        assert_eq!(&message[..length], b"READY=1\nWATCHDOG=1\n");
    }
    let address = exporter.address().await;
    assert!(page(&address, "/metrics").await.is_some());
}

/// Linux keeps ten datagrams for a socket by default.
#[tokio::test]
async fn a_notification_socket_that_nobody_reads_stops_nothing() {
    let name = format!("azure-scheduled-events-exporter-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let systemd = std::os::unix::net::UnixDatagram::bind_addr(&address).unwrap();
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let mut exporter = Process::start_as(
        Command::new(PROGRAM)
            .args(["--web.listen-address=127.0.0.1:0"])
            .arg(format!("--imds.url={}", imds.base()))
            .env("NOTIFY_SOCKET", format!("@{name}"))
            .env("WATCHDOG_USEC", "0"),
    );
    exporter
        .says("systemd was not notified (NOTIFY_SOCKET)\" error=\"Resource temporarily unavailable")
        .await;
    let requests = imds.event_requests();
    imds.until_requests(requests + 2).await;
    let mut message = [0; 100];
    let length = systemd.recv(&mut message).unwrap();
    assert_eq!(&message[..length], b"READY=1\nWATCHDOG=1\n");
    exporter.signal("TERM");
    let end = exporter.end().await;
    assert_eq!(end.code, Some(0));
}

#[tokio::test]
async fn hangup_does_not_end_the_exporter() {
    // The tests may run under nohup. A shell cannot reset a signal that was ignored when it started.
    for shell in ["exec env --default-signal=HUP \"$0\" \"$@\"", "trap '' HUP"] {
        let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
        let mut exporter = start_after(shell, &imds, &[]);
        let address = exporter.address().await;
        for _ in 0..3 {
            exporter.signal("HUP");
            imds.until_requests(imds.event_requests() + 2).await;
        }
        assert!(metrics(&address).await.is_up(), "{shell}");
        exporter.signal("TERM");
        assert_eq!(exporter.end().await.code, Some(0), "{shell}");
    }
}

#[tokio::test]
async fn hangup_ends_the_simulator_and_the_demo_with_their_terminal() {
    for command in ["simulate", "demo"] {
        let mut process = Process::start_as(Command::new("env").args([
            "--default-signal=HUP",
            PROGRAM,
            command,
            "--web.listen-address=127.0.0.1:0",
        ]));
        process.says("started").await;
        process.signal("HUP");
        assert_eq!(process.end().await.code, Some(0), "{command}");
    }
}

#[tokio::test]
async fn list_to_a_file_at_its_size_limit_is_a_write_failure() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(Reply::ok(FREEZE)).await;
    let output = Command::new("sh")
        .args(["-c", "ulimit -f 0; exec \"$0\" \"$@\"", PROGRAM])
        .args(["list", &format!("--imds.url={}", imds.base())])
        .stdout(std::fs::File::create(folder.path().join("list")).unwrap())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let output = tokio::task::spawn_blocking(|| output.wait_with_output());
    let output = output.await.unwrap().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(
        log.contains("cannot write to stdout: File too large"),
        "{log}"
    );
}

/// IMDS closes each connection, so that each poll needs a file descriptor.
#[tokio::test]
async fn http_clients_leave_file_descriptors_for_polls_and_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(Reply::ok(FREEZE).then_close()).await;
    let directory = format!(
        "--state.directory={}",
        folder.path().join("state").display()
    );
    let mut exporter = start_after("ulimit -n 64", &imds, &[&directory]);
    let address = exporter.address().await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        let mut client = connect_from(2, address.parse().unwrap());
        // A client that has been closed cannot send.
        client.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: ").ok();
        idle.push(client);
    }
    imds.until_requests(imds.event_requests() + 5).await;
    let metrics = metrics(&address).await;
    assert!(metrics.is_up(), "{}", metrics.0);
    assert!(metrics.failures("connect") < 1.0, "{}", metrics.0);
    let failures = "azure_scheduled_events_state_write_failures_total";
    assert_eq!(metrics.value(failures), Some(0.0));
    assert!(
        !exporter.log().contains("cannot accept"),
        "{}",
        exporter.log()
    );
    wait_until(DEADLINE, "a client beyond the limit is closed", || {
        let client = idle.last_mut()?;
        client.set_nonblocking(true).unwrap();
        (!matches!(client.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock))
            .then_some(())
    })
    .await;
    exporter.signal("TERM");
    assert_eq!(exporter.end().await.code, Some(0));
}
