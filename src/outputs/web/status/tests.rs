use serde_json::{Value, json};

use super::*;
use crate::{
    azure::{FailureReason, Identity},
    core::{
        approval::{ApprovalDecision, ApprovalReason, SkipReason},
        snapshot::SeriesScope,
    },
    outputs::metrics::MetricsOptions,
    outputs::web::{
        fixtures::{at as moment, due, freeze, snapshot_after},
        probe,
    },
};

fn render(snapshot: &Snapshot, seconds: u64) -> String {
    let now = moment(seconds);
    let serving = probe::serving(snapshot, std::time::Duration::from_mins(5), now);
    page(snapshot, &settings(None), &serving, now)
}

fn settings(simulator_url: Option<&str>) -> WebSettings {
    WebSettings {
        telemetry_path: "/metrics".to_owned(),
        exposed: MetricsOptions {
            scope: SeriesScope::Own,
            resources: false,
            process: false,
        },
        serving_lead_time: std::time::Duration::ZERO,
        simulator_url: simulator_url.map(Into::into),
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
    let serving = probe::serving(&snapshot, std::time::Duration::ZERO, moment(0));
    let settings = settings(Some("http://127.0.0.1:10170/"));
    let page = page(&snapshot, &settings, &serving, moment(0));
    assert!(page.contains("<strong>Simulated</strong>"), "{page}");
    let link = "<a href=\"http://127.0.0.1:10170/\">";
    assert!(page.contains(link), "{page}");
    assert!(!render(&snapshot, 0).contains("Simulated"));
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
fn advisory_is_listed_without_a_countdown_and_is_no_scheduled_event() {
    let advisory = freeze(&json!({
        "EventType": "SpotRebalanceRecommendation", "EventStatus": "Advisory", "DurationInSeconds": -1,
    }));
    let snapshot = snapshot_after(&[(0, json!([])), (600, json!([advisory]))]);
    let page = render(&snapshot, 610);
    let text = text_of(&page);
    assert!(page.contains("<title>No events scheduled"), "{page}");
    for expected in [
        "|No events scheduled|See the advisories below.|",
        "|Advisories|",
        "|Spot eviction advisory for web_1|",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(page.contains("data-phase=\"advisory\""), "{page}");
    assert!(!page.contains("data-testid=\"countdown\""), "{page}");
    let over = snapshot_after(&[(600, json!([advisory])), (620, json!([]))]);
    let text = text_of(&render(&over, 630));
    assert!(
        text.contains("|Spot eviction advisory for web_1 ended|10s| ago|"),
        "{text}"
    );
}

#[test]
fn an_entry_that_cannot_be_read_is_no_all_clear() {
    let snapshot = snapshot_after(&[(0, json!([])), (600, json!([{"EventType": "Preempt"}]))]);
    let page = render(&snapshot, 610);
    assert!(page.contains("<title>Unreadable entries"), "{page}");
    let text = text_of(&page);
    let expected = "|Unreadable entries|Entries of the last document that could not be read, and may be events: 1.";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("No events"), "{text}");
    let snapshot = snapshot_after(&[(0, json!([{"EventType": "Preempt"}])), (600, json!([]))]);
    assert!(render(&snapshot, 610).contains("<title>No events scheduled"));
}

#[test]
fn missing_document_is_not_shown_as_no_events() {
    let mut snapshot = Snapshot::empty(None, moment(0));
    for seconds in [0, 5] {
        let page = render(&snapshot, seconds);
        assert!(page.contains("No data yet"), "{page}");
        assert!(!page.contains("state clear") && !page.contains("No events scheduled"));
        snapshot
            .poll
            .fail(FailureReason::Shape, None, "{}".to_owned(), moment(1));
    }
}

#[test]
fn no_events_scheduled_requires_a_successful_poll() {
    let mut snapshot = snapshot_after(&[(0, json!([])), (600, json!([]))]);
    let page = render(&snapshot, 602);
    assert!(
        page.contains("state clear") && page.contains("No events scheduled"),
        "{page}"
    );
    assert!(page.contains(">2s</time> ago"), "{page}");
    snapshot.poll.fail(
        FailureReason::Connect,
        None,
        "refused".to_owned(),
        moment(630),
    );
    let page = render(&snapshot, 693);
    assert!(!page.contains("state clear"), "{page}");
    assert!(page.contains("No events were scheduled at the last successful poll"));
    assert!(
        page.contains("Polling has failed") && page.contains(">1m 3s</time>: <code>refused</code>"),
        "{page}"
    );
}

#[test]
fn other_vms_and_ended_events_have_their_own_sections() {
    let other_vm = freeze(&json!({"EventId": "n", "Resources": ["web_2"]}));
    let snapshot = snapshot_after(&[
        (
            0,
            json!([
                freeze(&json!({"EventStatus": "Started", "NotBefore": ""})),
                other_vm
            ]),
        ),
        (30, json!([other_vm])),
    ]);
    let page = render(&snapshot, 40);
    let position = |text: &str| {
        page.find(text)
            .unwrap_or_else(|| panic!("{text} in {page}"))
    };
    assert!(position("No events yet") < position("Events for other VMs"));
    assert!(position("Events for other VMs") < position("data-event-id=\"n\""));
    assert!(position("data-event-id=\"n\"") < position("Recently ended"));
    assert!(position("Recently ended") < position("Freeze of web_1 completed"));
}

#[test]
fn started_events_come_before_scheduled_ones() {
    let started = freeze(&json!({"EventId": "s", "EventStatus": "Started", "NotBefore": ""}));
    let snapshot = snapshot_after(&[(0, json!([freeze(&json!({"NotBefore": due(60)})), started]))]);
    let page = render(&snapshot, 90);
    assert!(
        page.find("In progress for").unwrap() < page.find("any moment").unwrap(),
        "{page}"
    );
    assert!(page.contains("data-overdue"));
    assert!(page.contains("<title>Freeze of web_1 in progress since 09:00 UTC"));
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
    snapshot
        .poll
        .fail(FailureReason::Json, None, evil.to_owned(), moment(1));
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
fn card_shows_the_approval_decision() {
    let mut snapshot = snapshot_after(&[(0, json!([freeze(&json!({}))]))]);
    let id = snapshot.events[0].shown.id.clone();
    let approvals = [
        (
            ApprovalDecision::Waiting {
                reason: ApprovalReason::ShortFreeze,
                leader: "<web_0>".into(),
                until: moment(60).wall,
            },
            "|Approval|&lt;web_0&gt; is its first resource and approves it; this VM does if ",
        ),
        (
            ApprovalDecision::Withheld(SkipReason::Off),
            "|Approvals are off. The event starts at NotBefore, or earlier if someone approves it.|",
        ),
    ];
    for (approval, expected) in approvals {
        snapshot.approvals = std::sync::Arc::new([(id.clone(), approval)].into());
        let text = text_of(&render(&snapshot, 10));
        assert!(text.contains(expected), "{expected} in {text}");
    }
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

#[test]
fn lists_have_the_title_and_the_countdown_of_each_event() {
    let advisory = freeze(&json!({"EventId": "a", "EventStatus": "Advisory", "NotBefore": due(1)}));
    for (members, expected) in [
        (json!({"Resources": null}), "|may affect this VM|"),
        (
            json!({"Resources": ["web_2"]}),
            "|Freeze of web_2 at 09:10 UTC|9m 50s|",
        ),
        // An advisory does not hide it.
        (json!({}), "|Earliest start in|May start|9m 50s|"),
    ] {
        let snapshot = snapshot_after(&[(0, json!([advisory, freeze(&members)]))]);
        let page = render(&snapshot, 10);
        assert!(text_of(&page).contains(expected), "{expected} in {page}");
    }
}

#[test]
fn restored_events_are_shown_as_unconfirmed() {
    let mut snapshot = snapshot_after(&[(0, json!([freeze(&json!({}))]))]);
    snapshot.poll.last_success = None;
    let page = render(&snapshot, 5);
    assert!(page.contains("not confirmed since"), "{page}");
    assert!(page.contains("data-event-id"));
}
