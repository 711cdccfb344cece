//! Debian's `node_exporter` serves the file of an exporter that has no port.

use std::{fs, net::Ipv4Addr, path::Path};

use tempfile::TempDir;

use crate::{
    otlp::processes::freeze,
    support::{
        Daemon, Tool, client,
        exporter::{Exporter, PROGRAM},
        get, system, wait_until,
    },
};

#[tokio::test]
async fn node_exporter_serves_the_events_of_an_exporter_without_a_port() {
    let folder = TempDir::new().unwrap();
    let directory = folder.path().join("textfile");
    fs::create_dir(&directory).unwrap();
    let azure = Exporter::simulator(folder.path(), &[]).await;
    let args = [
        "--web.listen-address=none".to_owned(),
        format!("--imds.url={}", azure.url("")),
        "--vm.name=web_0".to_owned(),
        format!("--textfile.path={}", directory.join("azure.prom").display()),
    ];
    let exporter = Daemon::start("exporter", Path::new(PROGRAM), args, folder.path());
    let args = [
        "--web.listen-address=127.0.0.1:0".to_owned(),
        "--collector.disable-defaults".to_owned(),
        "--collector.textfile".to_owned(),
        format!("--collector.textfile.directory={}", directory.display()),
    ];
    let program = system(Tool::Debian, "/usr/bin/prometheus-node-exporter");
    let mut node = Daemon::start("node_exporter", &program, args, folder.path());
    let address = node.listening_on(Ipv4Addr::LOCALHOST).await;
    let url = format!("http://{address}/metrics");
    azure.play(freeze("900s")).await;
    for line in [
        "node_textfile_scrape_error 0",
        "azure_scheduled_events_up 1",
        r#"azure_scheduled_events_pending{event_type="Freeze",scope="self"} 1"#,
        // Of node_exporter alone.
        "# TYPE process_resident_memory_bytes gauge",
    ] {
        wait_until(line, async || {
            let metrics = get(&client(), &url).await?;
            metrics.lines().any(|it| it == line).then_some(())
        })
        .await;
    }
    assert!(!exporter.log().contains("msg=listening"));
}
