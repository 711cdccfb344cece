//! Which events have spans: those that name this VM, also where that becomes known late.

use super::*;

#[test]
fn only_events_of_this_vm_have_spans_and_a_late_name_backfills_them() {
    let documents = [
        document(vec![event(EventStatus::Scheduled)]),
        document(vec![event(EventStatus::Started)]),
        document(vec![]),
    ];
    for (vm_name, expected) in [(Some("other"), 0), (None, 0), (Some(OWN), 4)] {
        let mut tracker = tracker();
        let mut made = 0;
        for (at, document) in (1_000..).zip(&documents) {
            let transitions = tracker.observe(document, vm_name, moment(at));
            made += transitions
                .iter()
                .flat_map(|transition| spans(transition, &vm()))
                .count();
        }
        assert_eq!(made, expected, "{vm_name:?}");
    }
    let mut tracker = tracker();
    for (seen, expected) in [(0, 1), (1, 2), (2, 4)] {
        tracker.observe(
            &documents[seen],
            None,
            moment(1_000 + i64::try_from(seen).unwrap()),
        );
        let mut named = tracker.clone();
        named.set_vm_names(Some(OWN), moment(1_000));
        assert_eq!(
            backfill(&named.events(moment(1_000))[0], &vm(), moment(9_000)).len(),
            expected
        );
    }
}

#[test]
fn event_that_is_amended_to_name_this_vm_has_all_its_spans() {
    let whole = "scheduled_event Reboot";
    let [announced, notice, impact] =
        ["announced", "notice", "impact"].map(|name| format!("scheduled_event {name}"));
    let before_the_start = spans_of(&[
        (1_000, vec![of_another_vm(EventStatus::Scheduled)]),
        (1_010, vec![event(EventStatus::Scheduled)]),
        (1_020, vec![event(EventStatus::Started)]),
        (1_030, vec![]),
    ]);
    let at_the_start = spans_of(&[
        (1_000, vec![of_another_vm(EventStatus::Scheduled)]),
        (1_020, vec![event(EventStatus::Started)]),
        (1_030, vec![]),
    ]);
    let after_the_start = spans_of(&[
        (1_000, vec![of_another_vm(EventStatus::Scheduled)]),
        (1_020, vec![of_another_vm(EventStatus::Started)]),
        (1_025, vec![event(EventStatus::Started)]),
        (1_030, vec![]),
    ]);
    for all in [before_the_start, at_the_start, after_the_start] {
        let expected = [
            (&*announced, 1_000.0, 1_000.0),
            (&*notice, 1_000.0, 1_020.0),
            (&*impact, 1_020.0, 1_030.0),
            (whole, 1_000.0, 1_030.0),
        ];
        assert_eq!(summary(&all), expected);
    }
}

#[test]
fn event_that_leaves_this_vm_ends_its_spans() {
    let all = spans_of(&[
        (1_000, vec![event(EventStatus::Scheduled)]),
        (1_010, vec![of_another_vm(EventStatus::Scheduled)]),
        (1_020, vec![]),
    ]);
    let expected = [
        ("scheduled_event announced", 1_000.0, 1_000.0),
        ("scheduled_event notice", 1_000.0, 1_010.0),
        ("scheduled_event Reboot", 1_000.0, 1_010.0),
    ];
    assert_eq!(summary(&all), expected);
    let started = spans_of(&[
        (1_000, vec![event(EventStatus::Scheduled)]),
        (1_005, vec![event(EventStatus::Started)]),
        (1_010, vec![of_another_vm(EventStatus::Started)]),
    ]);
    let expected = [
        ("scheduled_event announced", 1_000.0, 1_000.0),
        ("scheduled_event notice", 1_000.0, 1_005.0),
        ("scheduled_event impact", 1_005.0, 1_010.0),
        ("scheduled_event Reboot", 1_000.0, 1_010.0),
    ];
    assert_eq!(summary(&started), expected);
}
