//! What stands on the page.

use serde_json::{Value, json};

use super::*;
use crate::{
    snapshot::{Approval, ApprovalReason, FailureReason, Identity, SkipReason},
    web::{
        fixtures::{at as moment, due, freeze, picture},
        probe,
    },
};

fn shown(snapshot: &Snapshot, seconds: u64) -> String {
    let now = moment(seconds);
    let serving = probe::serving(snapshot, std::time::Duration::from_mins(5), now);
    page(snapshot, "/metrics", &serving, now)
}

/// The text of the page, without its markup.
fn words(page: &str) -> String {
    let body = page.split_once("<body>").unwrap().1;
    let texts = body.split('<').filter_map(|part| part.split_once('>'));
    let texts: Vec<&str> = texts
        .map(|(_, text)| text)
        .filter(|text| !text.is_empty())
        .collect();
    texts.join("|")
}

#[test]
fn an_event_of_this_vm_comes_first_with_all_that_is_known() {
    let snapshot = picture(&[(0, json!([freeze(&json!({}))]))]);
    let page = shown(&snapshot, 10);
    let words = words(&page);
    assert!(
        page.contains("<title>Freeze in 9m 50s · web_1 · Azure Scheduled Events</title>"),
        "{page}"
    );
    for expected in [
        "|Freeze|Scheduled|The VM is paused",
        "|9m 50s|",
        "|Tue, 17 Nov 2026 09:10:00 UTC|",
        "|Interruption, announced|9s|",
        "|Host server is undergoing maintenance.|",
        "|Azure (Platform)|",
        "|7B1E04C9-52DA-4F6E-9C38-A40D7E91B265|",
        "|Names 1 VM|web_1|",
    ] {
        assert!(words.contains(expected), "{expected} in {words}");
    }
    assert!(page.contains("data-not-before=\"1794906600000\""));
    assert!(page.contains("data-event-id=\"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265\""));
}

#[test]
fn nothing_known_never_looks_like_nothing_scheduled() {
    let mut snapshot = Snapshot::empty(None, moment(0));
    for seconds in [0, 5] {
        let page = shown(&snapshot, seconds);
        assert!(page.contains("Not known yet"), "{page}");
        assert!(!page.contains("state clear") && !page.contains("Nothing is scheduled"));
        snapshot
            .health
            .fail(FailureReason::Shape, "{}".to_owned(), moment(1).wall);
    }
    assert!(shown(&snapshot, 6).contains("no scheduled-events document"));
}

#[test]
fn all_clear_is_only_said_while_polling_works() {
    let mut snapshot = picture(&[(0, json!([]))]);
    let page = shown(&snapshot, 2);
    assert!(
        page.contains("state clear") && page.contains("Nothing is scheduled"),
        "{page}"
    );
    assert!(page.contains(">2s</time> ago"), "{page}");
    snapshot.health.fail(
        FailureReason::Connect,
        "refused".to_owned(),
        moment(30).wall,
    );
    let page = shown(&snapshot, 93);
    assert!(!page.contains("state clear"), "{page}");
    assert!(page.contains("Nothing was scheduled when last heard"));
    assert!(
        page.contains("Polling fails") && page.contains(">1m 3s</time>"),
        "{page}"
    );
}

#[test]
fn events_known_from_before_a_restart_are_shown_as_unconfirmed() {
    let mut snapshot = picture(&[(0, json!([freeze(&json!({}))]))]);
    snapshot.health.last_success = None;
    let page = shown(&snapshot, 5);
    assert!(page.contains("not confirmed since"), "{page}");
    assert!(page.contains("data-event-id"));
}

#[test]
fn neighbours_and_ended_events_stand_apart() {
    let neighbour = freeze(&json!({"EventId": "n", "Resources": ["web_2"]}));
    let snapshot = picture(&[
        (
            0,
            json!([
                freeze(&json!({"EventStatus": "Started", "NotBefore": ""})),
                neighbour
            ]),
        ),
        (30, json!([neighbour])),
    ]);
    let page = shown(&snapshot, 40);
    let place = |text: &str| {
        page.find(text)
            .unwrap_or_else(|| panic!("{text} in {page}"))
    };
    assert!(place("Nothing is scheduled") < place("Other VMs of the set"));
    assert!(place("Other VMs of the set") < place("data-event-id=\"n\""));
    assert!(place("data-event-id=\"n\"") < place("Ended lately"));
    assert!(place("Ended lately") < place("Completed"));
}

#[test]
fn a_neighbours_line_says_whom_it_hits() {
    let line = |names: Value| {
        let neighbour = freeze(&json!({"Resources": names}));
        words(&shown(&picture(&[(0, json!([neighbour]))]), 10))
    };
    for (names, expected) in [
        (json!(["web_2"]), "| · web_2 · interruption: 9s|"),
        (json!(["_web_2", "web_3"]), "| · web_2, web_3 · "),
        (json!(["web_2", "web_3", "web_4"]), "| · 3 VMs · "),
    ] {
        let words = line(names);
        assert!(words.contains(expected), "{expected} in {words}");
    }
}

#[test]
fn what_is_going_on_comes_before_what_is_due_and_overdue_is_said() {
    let started = freeze(&json!({"EventId": "s", "EventStatus": "Started", "NotBefore": ""}));
    let snapshot = picture(&[(0, json!([freeze(&json!({"NotBefore": due(60)})), started]))]);
    let page = shown(&snapshot, 90);
    assert!(
        page.find("Going on for").unwrap() < page.find("any moment").unwrap(),
        "{page}"
    );
    assert!(page.contains("data-overdue"));
    assert!(page.contains("<title>Freeze is going on"));
}

#[test]
fn hostile_texts_are_shown_and_do_nothing() {
    let evil = "<script>alert(1)</script>\"' onload=x &amp; \u{2028}\u{202e}\u{0}\u{1b}[31m";
    let mut snapshot = picture(&[(
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
        .health
        .fail(FailureReason::Json, evil.to_owned(), moment(1).wall);
    let page = shown(&snapshot, 10);
    assert_eq!(
        page.matches("<script").count(),
        1,
        "only the page's own: {page}"
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
fn a_card_says_who_approves_the_event_and_when() {
    let mut snapshot = picture(&[(0, json!([freeze(&json!({}))]))]);
    let id = snapshot.events[0].event.id.clone();
    let approvals = [
        (
            Approval::Waiting {
                reason: ApprovalReason::ShortFreeze,
                leader: "<web_0>".into(),
                until: moment(60).wall,
            },
            "|&lt;web_0&gt; is the first that it names and approves it; this VM does at the time given where it is still \
             scheduled then: it is a short freeze (--approve.freeze-below).| |Tue, 17 Nov 2026 09:01:00 UTC|",
        ),
        (
            Approval::Withheld(SkipReason::Off),
            "|Not approved by this VM: approvals are off: ",
        ),
    ];
    for (approval, expected) in approvals {
        snapshot.approvals = std::sync::Arc::new([(id.clone(), approval)].into());
        let words = words(&shown(&snapshot, 10));
        assert!(words.contains(expected), "{expected} in {words}");
    }
}

#[test]
fn an_endless_text_is_cut() {
    let endless = "<".repeat(100_000);
    let event = freeze(&json!({"Description": endless, "EventType": endless}));
    let page = shown(&picture(&[(0, json!([event]))]), 10);
    assert!(page.len() < 40_000, "{}", page.len());
}

#[test]
fn many_events_stay_a_page() {
    let names: Vec<String> = (0..100)
        .map(|number| format!("web_{}", number + 2))
        .collect();
    let events: Vec<Value> = (0..250)
        .map(|number| freeze(&json!({"EventId": format!("event-{number}"), "Resources": names})))
        .collect();
    let snapshot = picture(&[(0, json!(events))]);
    let page = shown(&snapshot, 10);
    assert_eq!(page.matches("data-event-id=").count(), MAX_LISTED);
    assert!(page.contains("150 more are in the "), "{page}");
    assert!(!page.contains("<details open"));
    let own: Vec<Value> = (0..5)
        .map(|number| freeze(&json!({"EventId": format!("event-{number}")})))
        .collect();
    let page = shown(&picture(&[(0, json!(own))]), 10);
    assert_eq!(page.matches("<article").count(), MAX_CARDS);
    assert_eq!(page.matches("data-event-id=").count(), 5);
}

#[test]
fn an_event_that_may_concern_this_vm_is_not_hidden_among_the_others() {
    let snapshot = picture(&[(0, json!([freeze(&json!({"Resources": null}))]))]);
    let page = shown(&snapshot, 10);
    assert!(
        page.contains("may concern this VM") && page.contains("<article"),
        "{page}"
    );
}

#[test]
fn page_asks_nobody_else_and_needs_no_script() {
    let page = shown(&picture(&[(0, json!([freeze(&json!({}))]))]), 10);
    let asked: Vec<&str> = page
        .split(['"'])
        .filter(|value| value.starts_with("http") || value.starts_with("//"))
        .collect();
    assert_eq!(
        asked,
        ["https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events"]
    );
    assert!(!page.contains(" style=") && !page.contains("<style"));
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\""));
}
