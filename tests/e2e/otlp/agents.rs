//! Telegraf scrapes the exporter with the lines of docs/agents.md, and takes all signals over gRPC.

use std::{collections::BTreeSet, fs, net::Ipv4Addr};

use tempfile::TempDir;

use super::processes::{Vm, freeze};
use crate::support::{
    Daemon, Tool, block, cached, client, exporter::Exporter, get, samples, wait_until,
};

/// Waits until a line of the log contains all of these.
async fn until_logged(agent: &mut Daemon, parts: &[&str]) {
    wait_until(&format!("{parts:?}"), async || {
        agent.assert_running();
        let log = agent.log();
        let mut lines = log.split_inclusive('\n');
        lines.find(|line| parts.iter().all(|part| line.contains(part)))?;
        Some(())
    })
    .await;
}

#[tokio::test]
async fn telegraf_scrapes_every_series_and_takes_all_signals_over_grpc() {
    const OTLP: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let azure = Exporter::simulator(folder, &[]).await;
    let mut vm = Vm::start("web_0", &azure, folder, &[]).await;
    azure.play(freeze("900s")).await;
    let pending = r#"azure_scheduled_events_pending{event_type="Freeze",scope="self"}"#;
    vm.until(pending, 1).await;
    let lines = block("docs/agents.md", "[[inputs.prometheus]]");
    assert!(lines.contains("localhost:10169"), "{lines}");
    let (_, port) = vm.address.rsplit_once(':').unwrap();
    let config = format!(
        "{}[agent]\nflush_interval = '1s'\n\
         [[inputs.opentelemetry]]\nservice_address = '{OTLP}:0'\n[[outputs.file]]\n",
        lines.replace("10169", port)
    );
    fs::write(folder.join("telegraf.conf"), config).unwrap();
    let program = cached(Tool::Telegraf, "telegraf", "telegraf");
    let mut telegraf = Daemon::start("telegraf", &program, ["--config=telegraf.conf"], folder);
    let text = get(&client(), &format!("http://{}/metrics", vm.address)).await;
    let samples = samples(&text.unwrap()).into_iter();
    let names: BTreeSet<_> = samples.map(|sample| sample.series.name).collect();
    assert!(names.contains("azure_scheduled_event_info"), "{names:?}");
    for name in names {
        until_logged(&mut telegraf, &["prometheus,", &format!("{name}=")]).await;
    }
    let endpoint = format!("http://{}", telegraf.listening_on(OTLP).await);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_METRICS_EXPORTER", "otlp"),
    ];
    let mut pushing = Vm::start("web_1", &azure, folder, &variables).await;
    pushing.until("azure_scheduled_events_up", 1).await;
    azure.play(freeze("6s")).await;
    for parts in [
        &["azure_scheduled_events_up,", "gauge=1"][..],
        &["spans,", "span.name=\"scheduled_event Freeze\""],
        &["logs,", "body=\"Ended: Freeze of web_0 and 2 more VMs"],
    ] {
        until_logged(&mut telegraf, parts).await;
    }
}
