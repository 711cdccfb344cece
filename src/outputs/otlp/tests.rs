//! Compares the names in the tables of `docs/reference.md` with those that are sent.

use std::collections::BTreeSet;

use super::{
    attribute::Key,
    fixtures::{event, identity, interruption, moment, settings, transitions_of, vm},
    resource,
    trace::spans,
};
use crate::{
    azure::{
        Identity,
        event::{Member, Status},
    },
    core::snapshot::Snapshot,
    core::{
        approval::ApprovalStep::{Accepted, Elsewhere, Intended, Sent, Withdrawn},
        lifecycle::{Rescheduling, TrackedEvent, TransitionKind},
    },
};

const PAGE: &str = include_str!("../../../docs/reference.md");
const CHANGES: &str = "Span events and log events";

/// Compares the first cells of the rows that begin with a name, below this heading.
fn assert_table(heading: &str, expected: impl IntoIterator<Item = String>) {
    assert_column(heading, 0, expected);
}

/// The names in the rows that have something in this column.
fn assert_column(heading: &str, column: usize, expected: impl IntoIterator<Item = String>) {
    let (_, rest) = PAGE.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n#").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter(|row| row.split(" | ").nth(column) != Some("–"));
    let shown: Vec<_> = rows.map(|row| row.split('`').next().unwrap()).collect();
    let names: BTreeSet<_> = shown.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names.len(), shown.len(), "{heading}: a row stands twice");
    assert_eq!(names, expected.into_iter().collect(), "{heading}");
}

#[test]
fn page_lists_the_names_of_what_is_sent() {
    let names = Key::ALL.iter().map(|key| key.as_str());
    let members = Member::ALL.iter().map(|member| member.attribute);
    assert_table("Attributes", names.chain(members).map(str::to_owned));
    // The error names the kinds of transitions, as the journal has them.
    let error = serde_json::from_str::<TransitionKind>("\"\"").unwrap_err();
    let kinds = error.to_string();
    let kinds = kinds.split('`').skip(3).step_by(2).chain(["advisory"]);
    assert_column(CHANGES, 2, kinds.map(str::to_owned));
    let (scheduled, started) = (event(Status::Scheduled), event(Status::Started));
    let transitions = transitions_of(&[
        (100, vec![scheduled]),
        (200, vec![started]),
        (300, Vec::new()),
    ]);
    let names = transitions.iter().flat_map(|it| spans(it, &vm()));
    let names = names.map(|span| span.name.replace(" Reboot", " <EventType>"));
    assert_table("Spans", names);
    let mut ended = transitions.last().unwrap().clone();
    let at = moment(250).wall;
    let mut tracked = TrackedEvent::clone(&ended.tracked);
    let (from, to) = (None, at);
    tracked.reschedulings = vec![Rescheduling { at, from, to }];
    tracked.interruptions = vec![interruption(250, 1_000)];
    for step in [Intended, Withdrawn, Sent, Accepted, Elsewhere] {
        tracked.approval.push(step, at);
    }
    ended.tracked = tracked.into();
    let events = spans(&ended, &vm()).into_iter();
    let names = events.flat_map(|span| span.events.events);
    assert_column(CHANGES, 1, names.map(|event| event.name.into_owned()));
}

#[test]
fn page_lists_the_resource() {
    let identity = Identity {
        zone: "2".to_owned(),
        ..identity()
    };
    let snapshot = Snapshot {
        identity: Some(identity.into()),
        owner: Some("shop".into()),
        ..Snapshot::empty(None, moment(0))
    };
    let resource = resource::attributes(&settings(&[]), &snapshot);
    assert_table("Resource", resource.into_keys());
    assert!(PAGE.contains(resource::SCHEMA_URL));
}
