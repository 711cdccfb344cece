//! Without an `--approve` flag the exporter sends only GETs.

use std::time::Duration;

use azure_scheduled_events_exporter::simulator::catalog;
use tokio::task::JoinSet;

use super::{azure::Azure, everything, settings_with};
use crate::{
    documents,
    support::{
        FakeImds, Reply,
        exporter::{Exporter, settings},
    },
};

/// Runs a scenario against an exporter without approvals; returns the number of requests other than GET.
async fn posts_under(scenario: &str) -> usize {
    let azure = Azure::playing(&[scenario], 600.0);
    let mut settings = settings(&azure.base());
    settings.imds.timeout = Duration::from_secs(1);
    settings.imds.first_timeout = Duration::from_secs(1);
    let exporter = Exporter::start(settings);
    // After a refusal (4xx) the next request comes a minute later.
    let is_refused = ["fault-msp-403", "fault-msp-421"].contains(&scenario);
    azure.until_gets(if is_refused { 2 } else { 5 }).await;
    exporter.stop().await;
    azure.posts()
}

#[tokio::test]
async fn without_a_flag_no_scenario_causes_a_post() {
    let mut playing = JoinSet::new();
    for (name, _) in catalog() {
        playing.spawn(async move { (name, posts_under(name).await) });
    }
    let mut played = 0;
    while let Some(ended) = playing.join_next().await {
        let (name, posts) = ended.unwrap();
        assert_eq!(posts, 0, "{name}");
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
