//! When the reader of stderr stops reading, log lines are dropped and nothing else is affected.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::support::{
    DEADLINE, FakeImds, Reply,
    exporter::Metrics,
    process::{PROGRAM, page},
};

const EMPTY_DOCUMENT: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const DROPPED: &str = "azure_scheduled_events_log_lines_dropped_total";

/// The program, and a stderr that is read only on request.
struct Exporter {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Exporter {
    fn start(imds: &FakeImds) -> Self {
        let mut child = Command::new(PROGRAM)
            .args([
                "--web.listen-address=127.0.0.1:0",
                "--imds.poll-interval=200ms",
                "--log.level=debug",
                &format!("--imds.url={}", imds.base()),
            ])
            .env_remove("STATE_DIRECTORY")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0);
        }
        let (_, rest) = line.split_once("address=").unwrap();
        let address = rest.split_whitespace().next().unwrap();
        let address = address.trim_matches('"').to_owned();
        Self {
            child,
            stderr,
            address,
        }
    }

    async fn metrics(&self) -> Metrics {
        Metrics(page(&self.address, "/metrics").await.unwrap())
    }

    /// Each of these requests is logged. It is answered even if its log line cannot be written.
    async fn send_malformed_request(&self) {
        let mut client = TcpStream::connect(&self.address).await.unwrap();
        client.write_all(b"GET\r\n\r\n").await.unwrap();
        let mut response = Vec::new();
        let read = timeout(DEADLINE, client.read_to_end(&mut response)).await;
        read.expect("the exporter does not respond").unwrap();
        assert!(response.starts_with(b"HTTP/1.1 400"));
    }

    /// Logs until the pipe and the queue are full.
    async fn drop_lines(&self) {
        for _ in 0..100 {
            for _ in 0..100 {
                self.send_malformed_request().await;
            }
            if self.metrics().await.value(DROPPED).unwrap() > 0.0 {
                return;
            }
        }
        panic!("no line was dropped");
    }

    fn terminate(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &pid]).status();
        assert!(sent.unwrap().success());
    }

    async fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the process does not end");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Both fail only when the process has ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[tokio::test]
async fn blocked_stderr_delays_neither_scrapes_nor_polls_nor_shutdown() {
    let imds = FakeImds::standing(Reply::ok(EMPTY_DOCUMENT)).await;
    let mut exporter = Exporter::start(&imds);
    exporter.drop_lines().await;
    imds.until_requests(imds.event_requests() + 3).await;
    assert!(exporter.metrics().await.is_up());
    assert!(page(&exporter.address, "/-/healthy").await.is_some());
    exporter.terminate();
    assert_eq!(exporter.wait().await.code(), Some(0));
}

#[tokio::test]
async fn lines_are_whole_and_complete_again_when_stderr_is_read_again() {
    let imds = FakeImds::standing(Reply::ok(EMPTY_DOCUMENT)).await;
    let mut exporter = Exporter::start(&imds);
    exporter.drop_lines().await;
    let mut rest = String::new();
    // More than the pipe holds, so that the queue has room again.
    for _ in 0..2_000 {
        assert_ne!(exporter.stderr.read_line(&mut rest).unwrap(), 0);
    }
    exporter.terminate();
    exporter.stderr.read_to_string(&mut rest).unwrap();
    let is_whole = |line: &str| line.starts_with("ts=");
    let part = rest.lines().find(|line| !is_whole(line));
    assert_eq!(part, None);
    assert!(rest.contains("shutting down"));
    assert_eq!(exporter.wait().await.code(), Some(0));
}

#[tokio::test]
async fn error_ends_the_process_although_stderr_is_blocked() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let mut filler = writer.try_clone().unwrap();
    // Blocks until the reader is dropped at the end of the test.
    std::thread::spawn(move || filler.write_all(&vec![b' '; 1 << 20]).unwrap_err());
    let mut child = Command::new(PROGRAM)
        .arg("--no.such.flag")
        .stderr(writer)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(status.code(), Some(64));
}
