use serde_json::{Value, json};

use super::*;
use crate::{
    azure::{FailureReason, Identity, RequestError},
    core::snapshot::SeriesScope,
    outputs::metrics::MetricsOptions,
    outputs::web::{
        fixtures::{at as moment, freeze, snapshot_after},
        probe,
    },
};

fn render(snapshot: &Snapshot, seconds: u64) -> String {
    let now = moment(seconds);
    let serving = probe::serving(snapshot, Duration::from_mins(5), now);
    page(snapshot, &settings(None), &serving, now)
}

fn settings(simulator: Option<(&str, f64)>) -> WebSettings {
    WebSettings {
        telemetry_path: "/metrics".to_owned(),
        exposed: MetricsOptions {
            scope: SeriesScope::Own,
            resources: false,
            process: false,
        },
        serving_lead_time: Duration::ZERO,
        simulator: simulator.map(|(url, speed)| (url.into(), speed)),
    }
}

/// The text of the page without markup.
fn text_of(page: &str) -> String {
    let body = page.split_once("<body>").unwrap().1;
    let texts = body.split('<').filter_map(|part| part.split_once('>'));
    let texts: Vec<&str> = texts
        .map(|(_, text)| text)
        .filter(|text| !text.is_empty())
        .collect();
    texts.join("|")
}

#[test]
fn page_of_the_demo_says_that_events_are_simulated_and_links_the_simulator() {
    let snapshot = snapshot_after(&[]);
    let serving = probe::serving(&snapshot, Duration::ZERO, moment(0));
    let url = "http://127.0.0.1:10170/";
    let page_at = |speed| {
        page(
            &snapshot,
            &settings(Some((url, speed))),
            &serving,
            moment(0),
        )
    };
    let page = page_at(60.0);
    let speed = "Time runs 60 times faster: 15 minutes take 15s. ";
    assert!(page.contains(speed), "{page}");
    assert!(!page_at(1.0).contains("faster"));
    assert!(page.contains("<strong>Simulated</strong>"), "{page}");
    let link = "<a href=\"http://127.0.0.1:10170/\">";
    assert!(page.contains(link), "{page}");
    assert!(!render(&snapshot, 0).contains("Simulated"));
}

#[test]
fn a_known_owner_is_shown_beside_the_name() {
    let mut snapshot = snapshot_after(&[]);
    assert!(!render(&snapshot, 0).contains("Owner"));
    snapshot.owner = Some("shop & co".into());
    let text = text_of(&render(&snapshot, 0));
    assert!(text.contains("|Name|web_1|Owner|shop &amp; co|"), "{text}");
}

#[test]
fn event_of_this_vm_is_shown_in_full() {
    let snapshot = snapshot_after(&[(0, json!([freeze(&json!({}))]))]);
    let page = render(&snapshot, 10);
    let text = text_of(&page);
    assert!(
        page.contains(
            "<title>Freeze of web_1 at 09:10 UTC · web_1 · Azure Scheduled Events</title>"
        ),
        "{page}"
    );
    for expected in [
        "|Freeze of web_1 at 09:10 UTC|Scheduled|",
        "|Earliest start in|May start|9m 50s|2026-11-17 09:10:00 UTC|",
        "|VM|web_1|What|Freeze: the VM is paused; ",
        "|Duration|9s announced|",
        "|Azure|&quot;Host server is undergoing maintenance.&quot;|",
        "|Source|Platform|",
        "|Event|7B1E04C9-52DA-4F6E-9C38-A40D7E91B265|",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(page.contains("data-not-before=\"1794906600000\""));
    assert!(page.contains("data-event-id=\"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265\""));
}

#[test]
fn untrusted_text_is_escaped() {
    let evil = "<script>alert(1)</script>\"' onload=x &amp; \u{2028}\u{202e}\u{0}\u{1b}[31m";
    let mut snapshot = snapshot_after(&[(
        0,
        json!([freeze(&json!({
            "EventId": evil, "EventType": evil, "EventStatus": evil, "EventSource": evil,
            "Description": evil, "Resources": ["web_1", evil], evil: {"x": evil},
        }))]),
    )]);
    snapshot.vm_name = Some(evil.into());
    snapshot.identity = Some(std::sync::Arc::new(Identity {
        name: evil.to_owned(),
        scale_set: evil.to_owned(),
        ..Identity::default()
    }));
    let failure = RequestError::new(FailureReason::Json, evil);
    snapshot.poll.fail(failure, moment(1));
    let page = render(&snapshot, 10);
    assert_eq!(
        page.matches("<script").count(),
        1,
        "more than the script of the page: {page}"
    );
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;' onload=x &amp;amp; "));
    assert!(
        !page
            .chars()
            .any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{202e}')),
        "{page}"
    );
    assert!(!page.contains("=\"<"), "{page}");
}

#[test]
fn lists_and_texts_are_limited() {
    let long = "<".repeat(100_000);
    let event = freeze(&json!({"Description": long, "EventType": long}));
    let page = render(&snapshot_after(&[(0, json!([event]))]), 10);
    assert!(page.len() < 40_000, "{}", page.len());
    let names: Vec<String> = (0..100)
        .map(|number| format!("web_{}", number + 2))
        .collect();
    let events: Vec<Value> = (0..250)
        .map(|number| freeze(&json!({"EventId": format!("event-{number}"), "Resources": names})))
        .collect();
    let snapshot = snapshot_after(&[(0, json!(events))]);
    let page = render(&snapshot, 10);
    assert_eq!(page.matches("data-event-id=").count(), MAX_LISTED);
    assert!(page.contains("150 more in the "), "{page}");
    assert!(!page.contains("Approvals are off"), "in each row: {page}");
    let own: Vec<Value> = (0..5)
        .map(|number| freeze(&json!({"EventId": format!("event-{number}")})))
        .collect();
    let page = render(&snapshot_after(&[(0, json!(own))]), 10);
    assert_eq!(page.matches("<article").count(), MAX_CARDS);
    assert_eq!(page.matches("data-event-id=").count(), 5);
}

#[test]
fn page_loads_nothing_from_other_hosts_and_needs_no_script() {
    let page = render(&snapshot_after(&[(0, json!([freeze(&json!({}))]))]), 10);
    let urls: Vec<&str> = page
        .split(['"'])
        .filter(|value| value.starts_with("http") || value.starts_with("//"))
        .collect();
    assert_eq!(urls, [DOCUMENTATION]);
    assert!(!page.contains(" style=") && !page.contains("<style"));
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\""));
}
