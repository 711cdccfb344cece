//! The threads of the process, on Linux: all of them exist before an event needs one, since a system without a free
//! thread must not end the process at that moment.

#[cfg(feature = "root-tests")]
use std::path::Path;
use std::{fs, io::Write as _, path::PathBuf, process::Command};

use tempfile::TempDir;

#[cfg(feature = "root-tests")]
use crate::support::{DEADLINE, process::page, wait_until};
use crate::support::{
    FakeAlertmanager, FakeImds, Reply,
    collector::FakeCollector,
    process::{PROGRAM, Process},
};

const NOTHING: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const OWN_FREEZE: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}]}"#;

/// What the exporter talks to: the collector and the Alertmanager by host name.
struct Peers {
    imds: FakeImds,
    alertmanager: FakeAlertmanager,
    collector: FakeCollector,
    folder: TempDir,
}

impl Peers {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut credentials = fs::File::create(folder.path().join("credentials")).unwrap();
        credentials.write_all(b"user:password").unwrap();
        Self {
            imds: FakeImds::standing(Reply::ok(NOTHING)).await,
            alertmanager: FakeAlertmanager::standing(Reply::ok("")).await,
            collector: FakeCollector::scripted([]).await,
            folder,
        }
    }

    /// Completes a command that starts the program.
    fn configure<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let alertmanager = self.alertmanager.base().replace("127.0.0.1", "localhost");
        let port = self.collector.address.port();
        command
            .args([
                "--web.listen-address=127.0.0.1:0",
                "--imds.poll-interval=200ms",
            ])
            .arg(format!("--imds.url={}", self.imds.base()))
            .arg(format!("--alertmanager.url={alertmanager}"))
            .arg("--alertmanager.basic-auth-file")
            .arg(self.folder.path().join("credentials"))
            .arg("--state.directory")
            .arg(self.folder.path().join("state"))
            .env(
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                format!("http://localhost:{port}"),
            )
    }

    /// The program under a limit on the threads of its user. Root has no such limit.
    #[cfg(feature = "root-tests")]
    fn start_limited(&self, threads: usize) -> Process {
        let mut command = Command::new("setpriv");
        let user = OTHER_USER;
        command
            .arg(format!("--reuid={user}"))
            .arg(format!("--regid={user}"))
            .args(["--clear-groups", "prlimit", &format!("--nproc={threads}")])
            .arg(PROGRAM);
        Process::start_as(self.configure(&mut command))
    }
}

/// tokio keeps a thread of its blocking pool for ten seconds, so that it would be among the threads at the end.
#[tokio::test]
async fn an_event_starts_no_thread_although_hosts_are_names_and_credentials_are_files() {
    let peers = Peers::start().await;
    let mut exporter = Process::start_as(peers.configure(&mut Command::new(PROGRAM)));
    exporter.says("polling started").await;
    let before = threads(&exporter);
    peers.imds.now(Reply::ok(OWN_FREEZE));
    exporter.says("alerts pushed").await;
    exporter.says("span sent").await;
    assert_eq!(threads(&exporter), before);
}

/// The limit counts the threads of all processes of a user, so this one should have no others.
#[cfg(feature = "root-tests")]
const OTHER_USER: u32 = 61_813;

#[cfg(feature = "root-tests")]
#[tokio::test]
async fn a_limit_on_threads_fails_the_start_with_one_line_and_never_ends_a_running_process() {
    let mut peers = Peers::start().await;
    let unlimited = Process::start_as(peers.configure(&mut Command::new(PROGRAM)));
    wait_until(DEADLINE, "polls", || {
        (peers.imds.event_requests() > 2).then_some(())
    })
    .await;
    let needed = threads(&unlimited).len();
    drop(unlimited);
    // The threads that send spans and log records are started again later, if they cannot be started at first.
    for limit in 1..needed - 2 {
        peers = Peers::start().await;
        own_by_other_user(peers.folder.path());
        let ended = peers.start_limited(limit).end().await;
        assert_eq!(ended.code, Some(1), "{limit} threads: {ended:?}");
        let errors = ended.log.lines().filter(|line| line.starts_with("error: "));
        let errors: Vec<_> = errors.collect();
        let [error] = errors[..] else {
            panic!("{limit} threads: {ended:?}")
        };
        let is_about_threads =
            error.starts_with("error: cannot start ") && error.contains("thread");
        assert!(is_about_threads, "{limit} threads: {error}");
        assert!(
            !ended.log.contains("panicked"),
            "{limit} threads: {ended:?}"
        );
    }

    peers = Peers::start().await;
    own_by_other_user(peers.folder.path());
    let mut exporter = peers.start_limited(needed);
    exporter.says("polling started").await;
    let address = exporter.address().await;
    peers.imds.now(Reply::ok(OWN_FREEZE));
    exporter.says("alerts pushed").await;
    exporter.says("span sent").await;
    assert!(!peers.alertmanager.requests().is_empty() && !peers.collector.received().is_empty());
    let metrics = page(&address, "/metrics").await.unwrap();
    assert!(metrics.contains("azure_scheduled_event_info{"), "{metrics}");
    assert_eq!(threads(&exporter).len(), needed);
    exporter.signal("TERM");
    let ended = exporter.end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Also the parent of the state directory.
#[cfg(feature = "root-tests")]
fn own_by_other_user(folder: &Path) {
    let own = |path: &Path| std::os::unix::fs::chown(path, Some(OTHER_USER), Some(OTHER_USER));
    own(folder).unwrap();
    own(&folder.join("credentials")).unwrap();
}

/// The names of the threads, in the order of their start.
fn threads(process: &Process) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.pid())).unwrap();
    let mut tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).collect();
    tasks.sort();
    let name = |task: PathBuf| fs::read_to_string(task.join("comm")).unwrap();
    tasks.into_iter().map(name).collect()
}
