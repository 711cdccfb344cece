//! What a person sees in Chromium, on a phone and on a desktop.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tempfile::TempDir;

use crate::support::exporter::Exporter;
use crate::support::node_script;

/// What `tests/browser/status.mjs` prints.
#[derive(Debug, Deserialize)]
struct Seen {
    status: u16,
    title: String,
    /// The text that is visible when the page has loaded, and after it changed by itself.
    text: String,
    later: String,
    countdowns: Countdowns,
    /// The text of each element with a `data-testid`.
    parts: BTreeMap<String, String>,
    /// Pixels that stick out to the right.
    overflow: f64,
    background: String,
    /// Errors and warnings of the console, refusals of the security policy, failed requests.
    complaints: Vec<String>,
    requests: Vec<String>,
    links: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Countdowns {
    before: Vec<String>,
    after: Vec<String>,
}

fn open(url: &str, options: &[&str]) -> Seen {
    let mut node = node_script("status.mjs");
    let done = node.arg(url).args(options).output();
    let done = done.expect("node in PATH (https://nodejs.org)");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "status.mjs failed:\n{said}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// A demo that stands at an announced Freeze for the next quarter of an hour.
async fn announced_freeze(folder: &Path) -> Exporter {
    Exporter::demo(folder, &["--scenario=host-maintenance", "--speed=1"]).await
}

impl Seen {
    /// It has come whole, from here alone, fits the screen, and the browser is content.
    fn is_flawless(&self, origin: &str) {
        assert_eq!(self.status, 200);
        assert!(self.complaints.is_empty(), "{:?}", self.complaints);
        let is_foreign = |url: &&String| !url.starts_with(origin);
        let foreign: Vec<&String> = self.requests.iter().filter(is_foreign).collect();
        assert!(foreign.is_empty(), "asked elsewhere: {foreign:?}");
        assert!(self.overflow <= 0.0, "{} px stick out", self.overflow);
    }

    /// It says what is coming, what that means, and how fresh this is.
    fn tells_of_the_freeze(&self) {
        let own = &self.parts["own"];
        for said in [
            "Freeze",
            "The VM is paused",
            "Host server is undergoing maintenance",
        ] {
            assert!(own.contains(said), "no {said:?} in: {own}");
        }
        assert!(self.title.contains("Freeze in "), "{}", self.title);
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
async fn status_page_shows_what_is_coming_on_a_phone_and_on_a_desktop() {
    let folder = TempDir::new().unwrap();
    let demo = announced_freeze(folder.path()).await;
    for width in ["--width=390", "--width=1280"] {
        let seen = open(&demo.url("/"), &[width, "--watch=30"]);
        seen.is_flawless(&demo.url("/"));
        seen.tells_of_the_freeze();
        assert_ne!(
            seen.countdowns.before, seen.countdowns.after,
            "the countdown stands still"
        );
    }
}

#[tokio::test]
async fn status_page_is_whole_and_renews_itself_without_script() {
    let folder = TempDir::new().unwrap();
    let demo = announced_freeze(folder.path()).await;
    let seen = open(
        &demo.url("/"),
        &["--width=390", "--script=off", "--watch=60"],
    );
    seen.is_flawless(&demo.url("/"));
    seen.tells_of_the_freeze();
    assert_ne!(seen.text, seen.later, "the page stands still");
}

#[tokio::test]
async fn status_page_is_dark_for_who_wants_it_dark() {
    let folder = TempDir::new().unwrap();
    let demo = announced_freeze(folder.path()).await;
    let light = open(&demo.url("/"), &["--scheme=light"]);
    let dark = open(&demo.url("/"), &["--scheme=dark"]);
    for seen in [&light, &dark] {
        seen.is_flawless(&demo.url("/"));
        seen.tells_of_the_freeze();
    }
    assert_ne!(light.background, dark.background);
}

#[tokio::test]
async fn simulator_page_starts_a_scenario_at_the_press_of_a_button() {
    let folder = TempDir::new().unwrap();
    let simulator = Exporter::simulator(folder.path(), &[]).await;
    for width in ["--width=390", "--width=1280"] {
        let seen = open(&simulator.url("/"), &[width, "--press=user-reboot"]);
        seen.is_flawless(&simulator.url("/"));
        assert!(
            seen.text.contains("restarted as requested"),
            "{}",
            seen.text
        );
    }
}
