//! The command `watch` in a process of its own, beside an exporter in another one.

mod ends;
mod lines;
mod since;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::{
    DEADLINE, FakeImds, Reply,
    events::{self, event},
    process::{self, Process, page},
    wait_until,
};

const REBOOT: &str = "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265";
const FREEZE: &str = "E2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E";

/// A reboot of `web_0`, with some members replaced.
fn reboot(members: &Value) -> Value {
    let mut event = event(&json!({
        "EventType": "Reboot",
        "Description": "Host \"server\" is undergoing maintenance.",
    }));
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

fn scheduled() -> Value {
    reboot(&json!({}))
}

fn started() -> Value {
    reboot(&json!({"EventStatus": "Started", "NotBefore": ""}))
}

/// A document with these events.
fn document(events: impl IntoIterator<Item = Value>) -> Reply {
    events::document(1, events)
}

/// An exporter of `web_0` in its own process.
struct Exporter {
    imds: FakeImds,
    process: Process,
    address: String,
}

impl Exporter {
    async fn start(events: impl IntoIterator<Item = Value>) -> Self {
        Self::start_with(events, &[]).await
    }

    async fn start_with(events: impl IntoIterator<Item = Value>, flags: &[&str]) -> Self {
        let imds = FakeImds::standing(document(events)).await;
        // Others get no port of this address between two processes.
        let mut command = process::exporter(&imds);
        command.args(flags).arg("--web.listen-address=127.0.0.2:0");
        let mut process = Process::start_as(&mut command);
        let line = process.says("address=127.0.0.2:").await;
        let (_, address) = line.rsplit_once("address=").unwrap();
        let address = address.split_whitespace().next().unwrap().to_owned();
        let this = Self {
            imds,
            process,
            address,
        };
        this.has_polled().await
    }

    async fn has_polled(mut self) -> Self {
        self.process.says("polling started").await;
        self
    }

    /// What IMDS answers from now on.
    fn now(&self, events: impl IntoIterator<Item = Value>) {
        self.imds.now(document(events));
    }

    /// Waits for a log line about this transition.
    async fn observes(&mut self, transition: &str) {
        self.process.says(&format!("transition={transition}")).await;
    }

    /// Waits until the file of `--since` has the last transition.
    async fn is_saved(&self, since: &Path) {
        let transitions = page(&self.address, "/api/v1/transitions").await;
        let transitions: Value = serde_json::from_str(&transitions.unwrap()).unwrap();
        wait_until(DEADLINE, "the file is written", || {
            let saved: Value = serde_json::from_slice(&fs::read(since).ok()?).ok()?;
            (saved["number"] == transitions["newest"]).then_some(())
        })
        .await;
    }

    /// Ends a run whose file has the last transition.
    async fn ends(&self, watch: Watch, since: &Path) {
        self.is_saved(since).await;
        watch.terminate().await;
    }

    /// Another process in its place, with other flags and events. The one that watches notices it.
    async fn restart(
        self,
        watch: &mut Watch,
        flags: &[&str],
        events: impl IntoIterator<Item = Value>,
    ) -> Self {
        let (imds, address) = (self.imds, self.address);
        let earlier = watch.logged("cannot be read");
        self.process.signal("TERM");
        self.process.end().await;
        imds.now(document(events));
        wait_until(DEADLINE, "a warning", || {
            (watch.logged("cannot be read") > earlier).then_some(())
        })
        .await;
        let listen = format!("--web.listen-address={address}");
        let process = Process::start_as(process::exporter(&imds).arg(listen).args(flags));
        let this = Self {
            imds,
            process,
            address,
        };
        this.has_polled().await
    }

    fn url(&self) -> String {
        format!("--url=http://{}", self.address)
    }

    fn watch(&self, flags: &[&str]) -> Watch {
        Watch::start(&[&[&*self.url()], flags].concat())
    }

    /// A `watch` that has read the exporter.
    async fn watching(&self, folder: &TempDir) -> Watch {
        let file = folder.path().join("printed");
        let watch = self.watch(&[&format!("--since={}", file.display())]);
        wait_until(DEADLINE, "watch has read the exporter", || {
            file.exists().then_some(())
        })
        .await;
        watch
    }
}

/// A server that answers every request with the same body.
struct FakeServer {
    address: String,
    body: Arc<Mutex<String>>,
}

impl FakeServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let body = Arc::new(Mutex::new(String::new()));
        let answered = Arc::clone(&body);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1024];
                if stream.read(&mut request).await.is_ok_and(|count| count > 0) {
                    let body = answered.lock().unwrap().clone();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    );
                    stream.write_all((head + &body).as_bytes()).await.ok();
                }
            }
        });
        Self { address, body }
    }

    /// The body from now on.
    fn now(&self, body: &str) {
        body.clone_into(&mut self.body.lock().unwrap());
    }
}

/// A running `watch`.
struct Watch {
    process: Process,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Watch {
    fn start(flags: &[&str]) -> Self {
        let mut process = Process::start([&["watch"], flags].concat());
        let printed = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&printed);
        let stdout = BufReader::new(process.take_stdout());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                printed.lock().unwrap().push(line.unwrap());
            }
        });
        Self { process, lines }
    }

    /// The lines so far.
    fn lines(&self) -> Vec<Value> {
        let lines = self.lines.lock().unwrap();
        let parse = |line: &String| serde_json::from_str(line).unwrap();
        lines.iter().map(parse).collect()
    }

    /// Transition and event ID of each line so far.
    fn transitions(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let lines = self.lines();
        let pair = |line: &Value| (text(&line["transition"]), text(&line["event"]["EventId"]));
        lines.iter().map(pair).collect()
    }

    /// Waits until exactly these transitions of the reboot have been printed.
    async fn prints(&self, expected: &[&str]) {
        let expected: Vec<_> = expected.iter().map(|name| (*name, REBOOT)).collect();
        self.prints_of(&expected).await;
    }

    async fn prints_of(&self, expected: &[(&str, &str)]) {
        let what = format!("{expected:?} are printed");
        wait_until(DEADLINE, &what, || {
            let found = self.transitions();
            let found: Vec<_> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
            assert!(expected.starts_with(&found), "{found:?}, not {expected:?}");
            (found == expected).then_some(())
        })
        .await;
    }

    /// The number of log lines with these words.
    fn logged(&self, words: &str) -> usize {
        self.process.log().matches(words).count()
    }

    async fn terminate(self) {
        self.process.signal("TERM");
        let ended = self.process.end().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}
