//! The OpenTelemetry Collector and Telegraf scrape the exporter with the lines of docs/agents.md, and Telegraf takes all
//! signals over gRPC.

use std::{collections::BTreeSet, fs, net::Ipv4Addr, path::Path};

use tempfile::TempDir;

use super::processes::freeze;
use crate::support::{
    Daemon, Tool, block, cached, client, exporter::Exporter, get, samples, wait_until,
};

/// Starts an agent that logs what it receives, with these lines of the page for an exporter with an event.
async fn start(
    (tool, program): (Tool, &'static str),
    [lines, more]: [&str; 2],
    azure: &Exporter,
    folder: &Path,
) -> (Daemon, Exporter) {
    let vm = Exporter::of_vm(azure, "web_0", &[], &[], folder).await;
    azure.play(freeze("900s")).await;
    vm.until(r#"azure_scheduled_events_pending{event_type="Freeze",scope="self"} 1"#)
        .await;
    let (_, port) = vm.address.rsplit_once(':').unwrap();
    let lines = block("docs/agents.md", lines);
    assert!(lines.contains("localhost:10169"), "{lines}");
    let config = lines.replace("10169", port) + more;
    fs::write(folder.join("agent.conf"), config).unwrap();
    let args = ["--config=agent.conf"];
    let path = cached(tool, tool.name(), program);
    (Daemon::start(program, &path, args, folder), vm)
}

/// Waits until the agent has logged each series that the exporter has.
async fn until_scraped(agent: &mut Daemon, vm: &Exporter, logged_form: impl Fn(&str) -> String) {
    let text = get(&client(), &vm.url("/metrics")).await;
    let names = samples(&text.unwrap()).into_iter().map(|it| it.series.name);
    let names: BTreeSet<_> = names.collect();
    assert!(names.contains("azure_scheduled_event_info"), "{names:?}");
    for name in names {
        until_logged(agent, &[&logged_form(&name)]).await;
    }
}

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
async fn collector_scrapes_every_series() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let azure = Exporter::simulator(folder, &[]).await;
    let more = "exporters: { debug: { verbosity: detailed } }
service:
  telemetry: { metrics: { level: none } }
  pipelines: { metrics: { receivers: [prometheus], exporters: [debug] } }
";
    let program = (Tool::Scraper, "otelcol");
    let (mut agent, vm) = start(program, ["  prometheus:", more], &azure, folder).await;
    until_scraped(&mut agent, &vm, |name| {
        let suffixes = ["_bucket", "_sum", "_count"].into_iter();
        let mut families = suffixes.filter_map(|suffix| name.strip_suffix(suffix));
        format!("-> Name: {}\n", families.next().unwrap_or(name))
    })
    .await;
}

#[tokio::test]
async fn telegraf_scrapes_every_series_and_takes_all_signals_over_grpc() {
    const OTLP: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let azure = Exporter::simulator(folder, &[]).await;
    let more = format!(
        "[agent]\nflush_interval = '1s'\n\
         [[inputs.opentelemetry]]\nservice_address = '{OTLP}:0'\n[[outputs.file]]\n"
    );
    let program = (Tool::Telegraf, "telegraf");
    let lines = ["[[inputs.prometheus]]", &more];
    let (mut agent, vm) = start(program, lines, &azure, folder).await;
    until_scraped(&mut agent, &vm, |name| format!("{name}=")).await;
    let endpoint = format!("http://{}", agent.listening_on(OTLP).await);
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_METRICS_EXPORTER", "otlp"),
    ];
    let _pushing = Exporter::of_vm(&azure, "web_1", &[], &variables, folder).await;
    azure.play(freeze("6s")).await;
    for parts in [
        &["azure_scheduled_events_up,", "gauge=1"][..],
        &["spans,", "span.name=\"scheduled_event Freeze\""],
        &["logs,", "body=\"Ended: Freeze of web_0 and 2 more VMs"],
    ] {
        until_logged(&mut agent, parts).await;
    }
}
