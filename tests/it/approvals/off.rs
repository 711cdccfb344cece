//! Without an `--approve` flag the exporter approves nothing.

use std::time::Duration;

use azure_scheduled_events_exporter::simulator::catalog;
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{everything, settings_with};
use crate::{
    documents,
    simulator::TestServer,
    support::{
        DEADLINE, FakeImds, Reply,
        exporter::{Exporter, settings},
    },
};

/// Runs a scenario against an exporter without approvals; returns the approvals that either counts.
async fn approvals_under(scenario: &str) -> Vec<String> {
    let azure = TestServer::start(&[scenario], 600.0);
    let mut settings = settings(&format!("http://{}", azure.host()));
    settings.imds.timeout = Duration::from_secs(1);
    settings.imds.first_timeout = Duration::from_secs(1);
    let exporter = Exporter::start(settings);
    let requests = || azure.get("/simulator/state").json()["requests"].clone();
    let deadline = Instant::now() + DEADLINE * 2;
    loop {
        let count = |it: &Value| it.as_u64().unwrap();
        let received: u64 = requests().as_object().unwrap().values().map(count).sum();
        // After a refusal (4xx) the next request comes a minute later.
        if received >= 3 {
            break;
        }
        assert!(Instant::now() < deadline, "{scenario}: {received} requests");
        sleep(Duration::from_millis(20)).await;
    }
    let metrics = exporter.metrics().await.0;
    exporter.stop().await;
    let counted = metrics.lines().filter(|line| {
        line.starts_with("azure_scheduled_events_approvals_total{") && !line.ends_with(" 0")
    });
    let accepted = requests()["approvals"].to_string();
    let accepted = Some(&*accepted).filter(|it| *it != "0");
    counted.chain(accepted).map(str::to_owned).collect()
}

#[tokio::test]
async fn without_a_flag_no_scenario_causes_an_approval() {
    let mut playing = JoinSet::new();
    for (name, _) in catalog() {
        playing.spawn(async move { (name, approvals_under(name).await) });
    }
    let mut played = 0;
    while let Some(ended) = playing.join_next().await {
        let (name, approvals) = ended.unwrap();
        assert!(approvals.is_empty(), "{name}: {approvals:?}");
        played += 1;
    }
    assert!(played >= 20, "{played} scenarios were played");
}

/// Serves each document to an exporter of its own; returns its requests and its counters.
async fn requests_under_documents() -> Vec<(String, Vec<String>, String)> {
    let mut reading = JoinSet::new();
    for (path, body) in documents::all() {
        reading.spawn(async move {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let imds = FakeImds::standing(Reply::ok(body)).await;
            imds.approvals(Reply::ok(""));
            let exporter = Exporter::start(settings_with(&imds, everything()));
            imds.until_requests(4).await;
            let metrics = exporter.metrics().await.0;
            exporter.stop().await;
            let requests = imds.requests();
            let posts = requests.iter().filter(|it| it.method != "GET");
            (name, posts.map(|it| it.body.clone()).collect(), metrics)
        });
    }
    reading.join_all().await
}

/// With every flag each event is approved at most once, and no forbidden one is.
#[tokio::test]
async fn with_every_flag_no_document_causes_a_forbidden_approval() {
    let read = requests_under_documents().await;
    assert!(read.iter().any(|(_, posts, _)| !posts.is_empty()));
    for (name, mut posts, metrics) in read {
        let sent = posts.len();
        posts.sort();
        posts.dedup();
        assert_eq!(posts.len(), sent, "{name}: an approval was sent twice");
        for line in metrics.lines() {
            let Some(labels) = line.strip_prefix("azure_scheduled_events_approvals_total{") else {
                continue;
            };
            let is_allowed = ["Freeze", "Reboot", "Redeploy"]
                .iter()
                .any(|it| labels.contains(&format!("\"{it}\"")));
            assert!(is_allowed, "{name}: {line}");
        }
    }
}
