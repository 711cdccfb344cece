//! `promtool check metrics` accepts `/metrics`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::exporter::Exporter;
use crate::support::{Tool, cached, client, get, system};

#[tokio::test]
async fn promtool_2_and_3_accept_the_metrics() {
    let folder = TempDir::new().unwrap();
    let demo = Exporter::demo(folder.path(), &[]).await;
    let metrics = get(&client(), &demo.url("/metrics")).await.unwrap();
    for promtool in [
        system(Tool::Debian, "/usr/bin/promtool"),
        cached(Tool::Prometheus3, "prometheus", "promtool"),
    ] {
        assert_eq!(
            complaints(&promtool, &metrics),
            "",
            "{} check metrics",
            promtool.display()
        );
    }
}

/// The output of `promtool check metrics`; its exit status when it fails without output.
fn complaints(promtool: &Path, metrics: &str) -> String {
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(metrics.as_bytes())
        .unwrap();
    let done = child.wait_with_output().unwrap();
    let output = [done.stdout, done.stderr].concat();
    let output = String::from_utf8_lossy(&output).into_owned();
    if output.is_empty() && !done.status.success() {
        done.status.to_string()
    } else {
        output
    }
}
