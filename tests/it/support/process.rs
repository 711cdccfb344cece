//! The program in its own process, with its log.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use super::{DEADLINE, FakeImds, wait_until};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_azure-scheduled-events-exporter");

/// The exporter of `web_0` with the shortest poll interval, on a port that the kernel chooses.
pub(crate) fn exporter(imds: &FakeImds) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "--web.listen-address=127.0.0.1:0",
            "--imds.poll-interval=200ms",
            "--vm.name=web_0",
        ])
        .arg(format!("--imds.url={}", imds.base()));
    command
}

/// A running process; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

/// The result of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` after a signal.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) log: String,
}

impl Process {
    /// Starts the program with these arguments.
    pub(crate) fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self::start_as(Command::new(PROGRAM).args(arguments))
    }

    /// Starts the program by a command that sets more than arguments.
    pub(crate) fn start_as(command: &mut Command) -> Self {
        let mut child = command
            .env_remove("STATE_DIRECTORY")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let log = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let written = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            while matches!(lines.read_line(&mut line), Ok(count) if count > 0) {
                written.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Self { child, log, reader }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// It has ended, and its log is complete. Call this before [`Process::log`]: the last line may come in between.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some() && self.reader.is_finished()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a log line with these words and returns it.
    pub(crate) async fn says(&mut self, words: &str) -> String {
        wait_until(DEADLINE, &format!("a log line with {words:?}"), || {
            let has_ended = self.has_ended();
            let log = self.log();
            let line = log.lines().find(|line| line.contains(words));
            assert!(
                line.is_some() || !has_ended,
                "no log line with {words:?} before the end:\n{log}"
            );
            line.map(str::to_owned)
        })
        .await
    }

    /// The address in the log line "listening".
    pub(crate) async fn address(&mut self) -> String {
        let line = self.says("listening").await;
        let (_, rest) = line.split_once("address=").unwrap();
        let address = rest.split_whitespace().next().unwrap();
        address.trim_matches('"').to_owned()
    }

    /// Sends a signal, such as `TERM`, with the shell's own `kill`: the program is not installed everywhere.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid();
        let kill = format!("kill -s {name} {pid}");
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.unwrap().success(), "{kill}");
    }

    /// What it prints from now on; [`Ended::stdout`] is empty then.
    pub(crate) fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().unwrap()
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Ended {
        let status = wait_until(DEADLINE, "the process ends", || {
            self.child.try_wait().unwrap()
        })
        .await;
        let mut stdout = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_string(&mut stdout).unwrap();
        }
        wait_until(DEADLINE, "the log is read to its end", || {
            self.reader.is_finished().then_some(())
        })
        .await;
        Ended {
            code: status.code(),
            stdout,
            log: self.log(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when the process has ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("---- log ----\n{}", self.log());
        }
    }
}

/// The JSON of a page; null without a response.
pub(crate) async fn json(address: &str, path: &str) -> serde_json::Value {
    let body = page(address, path).await.unwrap_or_default();
    serde_json::from_str(&body).unwrap_or_default()
}

/// A page of a running process; `None` without a response.
pub(crate) async fn page(address: &str, path: &str) -> Option<String> {
    super::install_cryptography();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .timeout(DEADLINE)
        .build()
        .unwrap();
    let answer = client.get(format!("http://{address}{path}")).send().await;
    answer.ok()?.text().await.ok()
}
