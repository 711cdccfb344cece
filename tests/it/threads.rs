//! The threads of the process, on Linux: all of them exist before an event needs one, since a system without a free
//! thread must not end the process at that moment.

use std::{fs, io::Write as _, path::PathBuf, process::Command};

use crate::support::{
    FakeAlertmanager, FakeImds, Reply,
    collector::FakeCollector,
    process::{PROGRAM, Process},
};

const NOTHING: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const OWN_FREEZE: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}]}"#;

/// tokio keeps a thread of its blocking pool for ten seconds, so that it would be among the threads at the end.
#[tokio::test]
async fn an_event_starts_no_thread_although_hosts_are_names_and_credentials_are_files() {
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let alertmanager = FakeAlertmanager::standing(Reply::ok("")).await;
    let collector = FakeCollector::scripted([]).await;
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials");
    let mut file = fs::File::create(&credentials).unwrap();
    file.write_all(b"user:password").unwrap();
    let alertmanager_url = alertmanager.base().replace("127.0.0.1", "localhost");
    let mut exporter = Process::start_as(
        Command::new(PROGRAM)
            .args([
                "--web.listen-address=127.0.0.1:0",
                "--imds.poll-interval=200ms",
            ])
            .arg(format!("--imds.url={}", imds.base()))
            .arg(format!("--alertmanager.url={alertmanager_url}"))
            .arg("--alertmanager.basic-auth-file")
            .arg(&credentials)
            .arg("--state.directory")
            .arg(folder.path())
            .env(
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                format!("http://localhost:{}", collector.address.port()),
            ),
    );
    exporter.says("polling recovered").await;
    let before = threads(&exporter);
    imds.now(Reply::ok(OWN_FREEZE));
    exporter.says("alerts pushed").await;
    exporter.says("span sent").await;
    assert_eq!(threads(&exporter), before);
}

/// The names of the threads, in the order of their start.
fn threads(process: &Process) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.pid())).unwrap();
    let mut tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).collect();
    tasks.sort();
    let name = |task: PathBuf| fs::read_to_string(task.join("comm")).unwrap();
    tasks.into_iter().map(name).collect()
}
