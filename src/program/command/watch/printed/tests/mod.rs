mod kills;

use serde_json::{Value, json};

use super::*;

fn event(members: &Value) -> Value {
    let mut event = json!({"EventId": "E", "scope": "self", "advisory": false});
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

/// An answer without transitions, of journal `a`, whose last number is 7.
fn answer(members: &Value) -> Value {
    let mut answer = json!({
        "journal": "a", "now": "now", "has_document": true, "vm": {"name": "web_0"},
        "first": 3, "oldest": 1, "newest": 7, "newest_at": "seven", "on_disk": 7, "after_at": null, "transitions": [],
    });
    for (name, value) in members.as_object().unwrap() {
        answer[name] = value.clone();
    }
    answer
}

fn advance(was: Option<&Printed>, asked: Option<u64>, answer: &Value, all: bool) -> Step {
    let text = answer.to_string();
    let answer: TransitionsAnswer<'_> = serde_json::from_str(&text).unwrap();
    Printed::advance(was, asked, &answer, all).unwrap()
}

/// What the file of `--since` has.
fn printed(number: u64, at: Option<&str>, on_disk: u64) -> Printed {
    Printed {
        version: VERSION,
        journal: "a".to_owned(),
        number,
        at: at.map(str::to_owned),
        on_disk,
    }
}

/// The name and the event of each line.
fn names(lines: &str) -> Vec<String> {
    let name = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let (name, event) = (&line["transition"], &line["event"]["EventId"]);
        format!("{} {}", name.as_str().unwrap(), event.as_str().unwrap())
    };
    lines.lines().map(name).collect()
}

/// The lines of a step that prints, and the warning before them.
fn news(step: Step) -> (Vec<String>, Option<&'static str>) {
    match step {
        Step::Print(_, news) => (names(&news.lines), news.gap),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_file_open_events_are_pending_and_the_past_is_not_printed() {
    let open = [
        event(&json!({})),
        event(&json!({"EventId": "A", "advisory": true})),
        event(&json!({"EventId": "O", "scope": "other"})),
        event(&json!({"EventId": "U", "scope": "unknown"})),
    ];
    let past = json!({"number": 7, "at": "seven", "transition": "announced", "event": open[0]});
    let all = answer(&json!({"open": open, "transitions": [past]}));
    let step = advance(None, None, &all, false);
    let Step::Print(now, _) = &step else { panic!() };
    assert_eq!(now, &printed(7, Some("seven"), 7));
    assert_eq!(
        news(step),
        (vec!["pending E".to_owned(), "advisory A".to_owned()], None)
    );
    let (lines, _) = news(advance(None, None, &all, true));
    assert_eq!(lines, ["pending E", "advisory A", "pending O", "pending U"]);
}

#[test]
fn an_exporter_without_a_document_is_waited_for_unless_the_numbers_go_on() {
    let mut early = answer(&json!({"has_document": false, "open": []}));
    assert_eq!(advance(None, None, &early, false), Step::Wait);
    early["journal"] = json!("b");
    let was = printed(7, Some("seven"), 7);
    assert_eq!(advance(Some(&was), Some(7), &early, false), Step::Wait);
    early["journal"] = json!("a");
    let step = advance(Some(&was), Some(7), &early, false);
    assert_eq!(news(step), (vec![], None));
}

#[test]
fn a_number_that_was_not_on_disk_is_recognised_by_its_time() {
    let seven = Some("seven");
    for (at, on_disk, members, is_given_again) in [
        // Both times are the same; a number on disk needs no time.
        (seven, 5, json!({"after_at": "seven"}), false),
        (seven, 7, json!({"after_at": "other"}), false),
        (None, 5, json!({"after_at": null}), false),
        // Another entry has the number, or none has it yet.
        (seven, 5, json!({"after_at": "other"}), true),
        (seven, 5, json!({"newest": 6}), true),
        (None, 5, json!({"newest": 6}), true),
        // It is not kept any more: lines are missed, not repeated.
        (seven, 5, json!({"oldest": 10, "newest": 12}), false),
    ] {
        let was = printed(7, at, on_disk);
        let step = advance(Some(&was), Some(7), &answer(&members), false);
        let is_printed = matches!(step, Step::Print(..));
        assert_eq!(is_printed, !is_given_again, "{was:?} {members}");
        assert!(is_printed || step == Step::Ask(Some(5)), "{step:?}");
    }
    let was = printed(7, Some("seven"), 5);
    let again =
        json!({"number": 6, "at": "6", "transition": "started", "event": event(&json!({}))});
    let answer = answer(&json!({"newest": 6, "after_at": "five", "transitions": [again]}));
    let step = advance(Some(&was), Some(5), &answer, false);
    assert_eq!(news(step), (vec!["started E".to_owned()], None));
}

#[test]
fn what_the_exporter_does_not_keep_is_said() {
    let was = printed(7, Some("seven"), 7);
    for (oldest, expected) in [(8, None), (9, Some(MISSED))] {
        let answer = answer(&json!({"oldest": oldest, "newest": 12}));
        let step = advance(Some(&was), Some(7), &answer, false);
        assert_eq!(news(step), (vec![], expected));
    }
}

/// What is before it, and still kept, is not printed again.
#[test]
fn after_a_last_line_that_fell_off_the_journal_the_lines_go_on() {
    for (on_disk, gap) in [(0, Some(MISSED)), (2, None)] {
        let was = printed(2, Some("two"), on_disk);
        let answer = answer(&json!({"oldest": 3, "on_disk": 0}));
        let step = advance(Some(&was), Some(2), &answer, false);
        assert_eq!(news(step), (vec![], gap));
    }
}

#[test]
fn after_another_journal_the_lines_are_those_of_the_running_process() {
    let was = Printed {
        journal: "b".to_owned(),
        ..printed(9, Some("nine"), 9)
    };
    assert_eq!(
        advance(Some(&was), Some(9), &answer(&json!({})), false),
        Step::Ask(None)
    );
    let transition = |number: u64, id: &str, name: &str| {
        let event = event(&json!({"EventId": id}));
        json!({"number": number, "at": "x", "transition": name, "event": event})
    };
    let open = ["E", "F"].map(|id| event(&json!({"EventId": id})));
    let all = answer(&json!({"open": open, "transitions": [
        transition(2, "E", "announced"), transition(3, "F", "announced"), transition(7, "G", "ended"),
    ]}));
    let (lines, gap) = news(advance(Some(&was), None, &all, false));
    assert_eq!(lines, ["pending E", "announced F", "ended G"]);
    assert_eq!(gap, Some(OTHER_JOURNAL));
}

#[test]
fn lines_are_about_events_that_name_this_vm_or_named_it_before() {
    // Transition, scope before, event; the line, and that with --all.
    for (transition, was, scope, expected, with_all) in [
        ("announced", None, "other", None, "announced"),
        ("changed", None, "self", Some("changed"), "changed"),
        (
            "changed",
            Some("other"),
            "self",
            Some("announced"),
            "changed",
        ),
        (
            "changed",
            Some("unknown"),
            "advisory",
            Some("advisory"),
            "changed",
        ),
        ("changed", Some("self"), "other", Some("changed"), "changed"),
        ("changed", Some("unknown"), "other", None, "changed"),
        ("ended", None, "other", None, "ended"),
    ] {
        let members = match scope {
            "advisory" => json!({"advisory": true}),
            scope => json!({"scope": scope}),
        };
        let entry = json!({
            "number": 8, "at": "x", "transition": transition, "was_scope": was, "event": event(&members),
        });
        let answer = answer(&json!({"newest": 8, "transitions": [entry]}));
        let was = printed(7, Some("seven"), 7);
        let lines = |all| news(advance(Some(&was), Some(7), &answer, all)).0;
        let expected: Vec<_> = expected.iter().map(|name| format!("{name} E")).collect();
        assert_eq!(lines(false), expected, "{entry}");
        assert_eq!(lines(true), [format!("{with_all} E")], "{entry}");
    }
}

#[test]
fn content_of_another_version_or_cut_off_is_no_file_of_watch() {
    let printed = printed(7, None, 5);
    let json = serde_json::to_vec(&printed).unwrap();
    assert_eq!(Printed::from_json(&json), Some(printed));
    let older = br#"{"version":3,"process":"p","number":7,"followed":{}}"#;
    let newer = br#"{"version":5,"journal":"a","number":7,"at":null,"on_disk":5}"#;
    for content in [&json[..json.len() - 1], &[0; 100], older, newer, b"notes"] {
        assert_eq!(Printed::from_json(content), None);
    }
}
