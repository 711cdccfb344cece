//! The program as a person starts it: its own process, its own log.

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use super::PATIENCE;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_azure-scheduled-events-exporter");

/// A running process of ours, or of one that becomes ours; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
}

/// What is left of a process.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` where a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) log: String,
}

impl Process {
    /// Starts the program with these arguments, in a bare environment.
    pub(crate) fn start<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self::start_as(Command::new(PROGRAM).args(arguments))
    }

    /// Starts a command that runs the program in the end.
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
        std::thread::spawn(move || {
            let mut line = String::new();
            while matches!(lines.read_line(&mut line), Ok(count) if count > 0) {
                written.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        Self { child, log }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that it has said so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The first line of its log with these words, as soon as it is there.
    pub(crate) async fn says(&mut self, words: &str) -> String {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            let is_over = tokio::time::Instant::now() > deadline;
            let has_ended = self.child.try_wait().unwrap();
            assert!(
                !is_over && has_ended.is_none(),
                "it never said {words:?} ({has_ended:?}):\n{log}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Where it serves.
    pub(crate) async fn address(&mut self) -> String {
        let line = self.says("listening").await;
        let (_, rest) = line.split_once("address=").unwrap();
        let address = rest.split_whitespace().next().unwrap();
        address.trim_matches('"').to_owned()
    }

    /// Sends a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success(), "SIG{name} to {pid}");
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self) -> Ended {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            let is_over = tokio::time::Instant::now() > deadline;
            assert!(!is_over, "it does not end:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let mut stdout = String::new();
        let mut pipe = self.child.stdout.take().unwrap();
        pipe.read_to_string(&mut stdout).unwrap();
        // Its end of the pipe is closed; the last lines are read by another thread.
        while Arc::strong_count(&self.log) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
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
            eprintln!("---- it said ----\n{}", self.log());
        }
    }
}

/// A page of a running process; `None` where it does not answer.
pub(crate) async fn page(address: &str, path: &str) -> Option<String> {
    super::install_cryptography();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .timeout(PATIENCE)
        .build()
        .unwrap();
    let answer = client.get(format!("http://{address}{path}")).send().await;
    answer.ok()?.text().await.ok()
}
