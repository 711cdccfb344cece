//! How it ends.

use std::{
    io::Read as _,
    process::{Command, Stdio},
};

use super::{Exporter, Watch, scheduled};
use crate::support::{
    RefusingPort,
    process::{PROGRAM, Process},
};

#[cfg(unix)]
#[tokio::test]
async fn a_signal_ends_it_with_code_0() {
    let exporter = Exporter::start([scheduled()]).await;
    for signal in ["TERM", "INT"] {
        let watch = exporter.watch(&[]);
        watch.prints(&["pending"]).await;
        watch.process.signal(signal);
        let ended = watch.process.end().await;
        assert_eq!((ended.code, &*ended.log), (Some(0), ""), "{signal}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_signal_ends_it_while_no_exporter_runs() {
    let refusing = RefusingPort::reserve();
    let mut watch = Watch::start(&[&format!("--url={}", refusing.base())]);
    let line = watch.process.says("cannot be read").await;
    assert!(
        line.contains("start azure-scheduled-events-exporter"),
        "{line}"
    );
    watch.terminate().await;
}

/// The reader of the pipe does not read, and the pipe is full.
#[cfg(unix)]
#[tokio::test]
async fn a_signal_ends_it_while_nobody_reads() {
    use serde_json::json;
    let large = |number| {
        let id = format!("7B1E04C9-52DA-4F6E-9C38-{number:012}");
        super::reboot(&json!({"EventId": id, "Description": "x".repeat(4_000)}))
    };
    let exporter = Exporter::start((0..100).map(large)).await;
    let mut process = Process::start(["watch", &exporter.url()]);
    let mut stdout = process.take_stdout();
    // The lines are longer than a pipe holds.
    let first = tokio::task::spawn_blocking(move || {
        stdout.read_exact(&mut [0]).unwrap();
        stdout
    });
    let _unread = first.await.unwrap();
    process.signal("TERM");
    let ended = process.end().await;
    assert_eq!(ended.code, Some(0), "{}", ended.log);
}

#[tokio::test]
async fn a_closed_pipe_ends_it_with_code_0() {
    let exporter = Exporter::start([]).await;
    let mut process = Process::start(["watch", &exporter.url()]);
    drop(process.take_stdout());
    // Elsewhere a closed pipe is noticed when it is written.
    #[cfg(not(unix))]
    exporter.now([scheduled()]);
    let ended = process.end().await;
    assert_eq!((ended.code, &*ended.log), (Some(0), ""));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn output_that_cannot_be_written_is_a_failure() {
    let exporter = Exporter::start([scheduled()]).await;
    let mut command = Command::new(PROGRAM);
    command
        .args(["watch", &exporter.url()])
        .stdout(std::fs::File::create("/dev/full").unwrap())
        .stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stderr).unwrap();
    assert!(line.starts_with("error: cannot write to stdout"), "{line}");
}

/// The standard library opens `/dev/null` in the place of a closed stdout: the lines would count as printed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn without_stdout_nothing_counts_as_printed() {
    let exporter = Exporter::start([scheduled()]).await;
    let file = tempfile::tempdir()
        .unwrap()
        .path()
        .with_extension("printed");
    let since = format!("--since={}", file.display());
    let mut command = Command::new("sh");
    let close = r#"exec "$0" watch "$@" >&-"#;
    command
        .args(["-c", close, PROGRAM, &exporter.url(), &since])
        .stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line, "error: cannot write to stdout: it is closed\n");
    exporter.watch(&[&since]).prints(&["pending"]).await;
}
