//! `promtool check metrics` accepts `/metrics`.

use std::process::Command;

use tempfile::TempDir;

use crate::support::{Tool, cached, client, exporter::Exporter, get, run, system};

#[tokio::test]
async fn promtool_2_and_3_accept_the_metrics() {
    let folder = TempDir::new().unwrap();
    let demo = Exporter::demo(folder.path(), &[]).await;
    let metrics = get(&client(), &demo.url("/metrics")).await.unwrap();
    for promtool in [
        system(Tool::Debian, "/usr/bin/promtool"),
        cached(Tool::Prometheus3, "prometheus", "promtool"),
    ] {
        let complaints = run(Command::new(promtool).args(["check", "metrics"]), &metrics);
        assert_eq!(complaints, "");
    }
}
