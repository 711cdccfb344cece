//! Prometheus' own linter has nothing to say about `/metrics`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::exporter::Exporter;
use crate::support::{Part, cached, client, get, system};

#[tokio::test]
async fn promtool_2_and_3_find_nothing_to_mend_in_metrics() {
    let folder = TempDir::new().unwrap();
    let demo = Exporter::demo(folder.path(), &[]).await;
    let metrics = get(&client(), &demo.url("/metrics")).await.unwrap();
    for promtool in [
        system(Part::Debian, "/usr/bin/promtool"),
        cached(Part::Prometheus3, "prometheus", "promtool"),
    ] {
        assert_eq!(
            complaints(&promtool, &metrics),
            "",
            "{} check metrics",
            promtool.display()
        );
    }
}

/// All that `promtool check metrics` prints, and its exit code when it prints nothing but fails.
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
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if said.is_empty() && !done.status.success() {
        done.status.to_string()
    } else {
        said
    }
}
