//! The status page and the simulator page in Chromium, at the width of a phone and of a desktop.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::exporter::Exporter;
use crate::support::node_script;
use crate::web_config;

/// The output of `tests/browser/status.mjs`.
#[derive(Debug, Deserialize)]
struct Page {
    status: u16,
    title: String,
    /// The visible text after loading, and after the page has changed by itself.
    text: String,
    later: String,
    countdowns: Countdowns,
    /// The text of each element with a `data-testid`.
    parts: BTreeMap<String, String>,
    /// Pixels beyond the right edge.
    overflow: f64,
    background: String,
    /// Errors and warnings of the console, violations of the security policy, failed requests.
    complaints: Vec<String>,
    requests: Vec<String>,
    links: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Countdowns {
    before: Vec<String>,
    after: Vec<String>,
}

fn open(url: &str, options: &[&str]) -> Page {
    let mut node = node_script("status.mjs");
    let done = node.arg(url).args(options).output();
    let done = done.expect("node in PATH (https://nodejs.org)");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "status.mjs failed:\n{stderr}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// A demo with a Freeze that is announced for 15 minutes ahead.
async fn announced_freeze(folder: &Path) -> Exporter {
    Exporter::demo(folder, &["--scenario=host-maintenance", "--speed=1"]).await
}

impl Page {
    /// Loaded from `origin` alone, without errors, and no wider than the screen.
    fn assert_loads_without_errors(&self, origin: &str) {
        assert_eq!(self.status, 200);
        assert!(self.complaints.is_empty(), "{:?}", self.complaints);
        let is_foreign = |url: &&String| !url.starts_with(origin);
        let foreign: Vec<&String> = self.requests.iter().filter(is_foreign).collect();
        assert!(foreign.is_empty(), "requests to other hosts: {foreign:?}");
        assert!(self.overflow <= 0.0, "{} px beyond the edge", self.overflow);
    }

    /// Shows the event, its effect, and the age of the data.
    fn assert_shows_freeze(&self) {
        let own = &self.parts["own"];
        for text in [
            "Freeze",
            "the VM is paused",
            "Host server is undergoing maintenance",
        ] {
            assert!(own.contains(text), "no {text:?} in: {own}");
        }
        assert!(self.title.contains("Freeze of "), "{}", self.title);
        assert_eq!(self.countdowns.before.len(), 1, "{:?}", self.countdowns);
        let about = &self.parts["about"];
        assert!(about.contains("succeeded"), "{about}");
        assert!(
            self.text.contains(env!("CARGO_PKG_VERSION")),
            "{}",
            self.text
        );
        assert!(!self.parts.contains_key("alarm"), "{:?}", self.parts);
        for link in ["metrics", "api/v1/events"] {
            assert!(
                self.links.iter().any(|found| found == link),
                "{:?}",
                self.links
            );
        }
    }
}

#[tokio::test]
async fn status_page_shows_the_event_on_a_phone_and_on_a_desktop_also_without_script() {
    let folder = TempDir::new().unwrap();
    let demo = announced_freeze(folder.path()).await;
    let url = demo.url("/");
    let phone = open(&url, &["--width=390", "--scheme=light", "--watch=30"]);
    let desktop = open(&url, &["--width=1280", "--scheme=dark", "--watch=30"]);
    let reloading = open(&url, &["--width=390", "--script=off", "--watch=60"]);
    for page in [&phone, &desktop, &reloading] {
        page.assert_loads_without_errors(&url);
        page.assert_shows_freeze();
    }
    for page in [&phone, &desktop] {
        let Countdowns { before, after } = &page.countdowns;
        assert_ne!(before, after, "the countdown does not change");
    }
    assert_ne!(reloading.text, reloading.later, "it does not reload");
    assert_ne!(phone.background, desktop.background);
}

#[tokio::test]
async fn status_page_shows_each_state_of_a_spot_vm() {
    let folder = TempDir::new().unwrap();
    let azure = Exporter::simulator(folder.path(), &["--vm.name=web_0"]).await;
    let flags = ["--imds.api-version=2026-05-01"];
    let vm = Exporter::of_vm(&azure, "web_0", &flags, &[], folder.path()).await;
    let advisory = json!({ "event_type": "SpotRebalanceRecommendation", "advisory_for": "1h" });
    let eviction = json!({ "event_type": "Preempt", "notice": "1s", "started_for": "1h" });
    // Each state lasts until the page was opened.
    for (event, sign, title, texts) in [
        (
            None,
            "azure_scheduled_events_up 1",
            "No events yet",
            &["Events may take until "][..],
        ),
        (
            Some(advisory),
            "azure_scheduled_events_advisories{event_type=\"SpotRebalanceRecommendation\",scope=\"self\"} 1",
            "No more events yet",
            &["See the advisories below.", "Spot eviction advisory"],
        ),
        (
            Some(eviction),
            "azure_scheduled_events_pending{event_type=\"Preempt\",scope=\"self\"} 1",
            "Preempt",
            &["the Spot VM is evicted", "Advisories"],
        ),
        (
            Some(Value::Null),
            "azure_scheduled_events_ended_total{event_type=\"Preempt\",outcome=\"completed\"} 1",
            "No more events yet",
            &["Preempt of web_0 completed", "advisory for web_0 ended"],
        ),
    ] {
        match event {
            None => {}
            Some(Value::Null) => azure.clear().await,
            Some(event) => azure.play(json!({ "events": [event] })).await,
        }
        vm.until(sign).await;
        let page = open(&vm.url("/"), &[]);
        page.assert_loads_without_errors(&vm.url("/"));
        assert!(page.title.starts_with(title), "{sign}: {}", page.title);
        for text in texts {
            assert!(
                page.text.contains(text),
                "{sign}: no {text:?} in: {}",
                page.text
            );
        }
    }
}

#[tokio::test]
async fn status_page_works_over_tls_with_a_password() {
    let folder = TempDir::new().unwrap();
    let config = web_config::write_files(folder.path(), web_config::ClientAuth::None);
    let (_demo, address) = web_config::demo(folder.path(), &config).await;
    let url = format!("https://{address}/");
    let password = format!("--password={}", web_config::PASSWORD);
    let page = open(&url, &["--user=prometheus", &password, "--watch=60"]);
    page.assert_loads_without_errors(&url);
    assert_ne!(page.text, page.later, "the page does not change");
    let refused = open(&url, &["--user=prometheus", "--password=wrong"]);
    assert_eq!(refused.status, 401);
    assert!(refused.text.contains("Unauthorized"), "{}", refused.text);
}

#[tokio::test]
async fn button_of_the_simulator_page_starts_a_scenario() {
    let folder = TempDir::new().unwrap();
    let simulator = Exporter::simulator(folder.path(), &[]).await;
    for width in ["--width=390", "--width=1280"] {
        let page = open(&simulator.url("/"), &[width, "--press=user-reboot"]);
        page.assert_loads_without_errors(&simulator.url("/"));
        assert!(
            page.text.contains("restarted as requested"),
            "{}",
            page.text
        );
    }
}
