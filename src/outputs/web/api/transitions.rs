//! `/api/v1/transitions`: the last transitions of events, numbered. `docs/http.md` describes it.

use serde::Serialize;
use serde_json::{Value, json};

use super::{EventContext, EventEntry};
use crate::{
    base::{text::escape_json, time::Moment},
    core::snapshot::{NumberedTransition, Snapshot},
};

/// The parameter `after`: the number of the last transition that the client has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::outputs::web) struct After(Option<u64>);

impl After {
    /// `None` if it is not a number.
    pub(in crate::outputs::web) fn parse(query: Option<&str>) -> Option<Self> {
        let parameters = query.unwrap_or_default().split('&');
        let mut values = parameters.filter_map(|parameter| match parameter.split_once('=') {
            Some(("after", value)) => Some(value),
            _ => (parameter == "after").then_some(""),
        });
        let Some(value) = values.next() else {
            return Some(Self(None));
        };
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        // A number that is too large is of an earlier process, as every one that this one has not reached.
        (is_number && values.next().is_none())
            .then(|| Self(Some(value.parse().unwrap_or(u64::MAX))))
    }
}

/// Each transition is one line.
///
/// # Errors
/// None in practice: every value of a snapshot can be serialised.
pub(in crate::outputs::web) fn transitions_json(
    snapshot: &Snapshot,
    After(after): After,
    now: Moment,
) -> serde_json::Result<String> {
    let (history, health) = (&*snapshot.transitions, &snapshot.health);
    let mut open: Vec<_> = snapshot
        .events
        .iter()
        .filter(|it| it.is_pending())
        .collect();
    open.sort_by_key(|tracked| tracked.first_seen_at);
    let context = EventContext::new(snapshot);
    let open = open.into_iter();
    let open = open.map(|tracked| EventEntry::current(tracked, &context, now));
    let body = TransitionList {
        process: history.process_started_at.rfc3339_millis(),
        as_of: snapshot.as_of.wall.rfc3339_millis(),
        now: now.wall.rfc3339_millis(),
        has_document: snapshot.has_document,
        warming_up: health.is_warming_up(now),
        unreadable_entries: health.unreadable_entries,
        vm: json!({
            "name": snapshot.vm_name.as_deref(),
            "name_mismatch": snapshot.other_vm_name().is_some(),
        }),
        oldest: history.oldest(),
        newest: history.newest,
        open: after.is_none().then(|| open.collect()),
        transitions: history
            .after(after.unwrap_or(0))
            .map(|numbered| TransitionEntry::new(numbered, &context))
            .collect(),
    };
    Ok(escape_json(serde_json::to_string(&body)? + "\n"))
}

#[derive(Serialize)]
struct TransitionList<'a> {
    process: String,
    as_of: String,
    now: String,
    has_document: bool,
    warming_up: bool,
    unreadable_entries: usize,
    vm: Value,
    oldest: u64,
    newest: u64,
    /// Without `after` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Vec<EventEntry<'a>>>,
    transitions: Vec<TransitionEntry<'a>>,
}

#[derive(Serialize)]
struct TransitionEntry<'a> {
    number: u64,
    at: String,
    transition: &'static str,
    restored: bool,
    event: EventEntry<'a>,
}

impl<'a> TransitionEntry<'a> {
    fn new(numbered: &'a NumberedTransition, context: &'a EventContext<'a>) -> Self {
        Self {
            number: numbered.number,
            at: numbered.at.rfc3339_millis(),
            transition: numbered.name,
            restored: numbered.is_restored,
            event: EventEntry {
                tracked: &numbered.tracked,
                approval: numbered.approval.as_ref(),
                context,
                now: numbered.at,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::web::fixtures::{at, due, freeze, snapshot_after};

    #[test]
    fn the_parameter_is_a_number_or_absent() {
        for (query, expected) in [
            (None, Some(None)),
            (Some(""), Some(None)),
            (Some("other=1"), Some(None)),
            (Some("after=0"), Some(Some(0))),
            (Some("a=b&after=17"), Some(Some(17))),
            (Some("after=99999999999999999999"), Some(Some(u64::MAX))),
            (Some("after"), None),
            (Some("after="), None),
            (Some("after=-1"), None),
            (Some("after=+1"), None),
            (Some("after=1.5"), None),
            (Some("after=x"), None),
            (Some("after=1&after=2"), None),
        ] {
            assert_eq!(After::parse(query), expected.map(After), "{query:?}");
        }
    }

    #[test]
    fn each_transition_has_the_event_as_it_was_then() {
        let moved = json!({"NotBefore": due(900)});
        let other = json!({"EventId": "E2C6D8F1-0A97-4B35-8D14-6F52C3B09A7E"});
        let snapshot = snapshot_after(&[
            (0, json!([freeze(&json!({}))])),
            (60, json!([freeze(&moved)])),
            (90, json!([freeze(&other)])),
        ]);
        let read = |after| -> Value {
            let text = transitions_json(&snapshot, After(after), at(100)).unwrap();
            assert_eq!(text.matches('\n').count(), 1);
            serde_json::from_str(&text).unwrap()
        };
        let all = read(None);
        let shown = |line: &Value| {
            let event = &line["event"];
            let line = [&line["number"], &line["at"], &line["transition"]];
            json!([line, event["not_before"], event["phase"]])
        };
        let lines: Value = all["transitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(shown)
            .collect();
        let time = |seconds: u64| at(seconds).wall.rfc3339_millis();
        assert_eq!(
            lines,
            json!([
                [[1, time(0), "announced"], time(600), "scheduled"],
                [[2, time(60), "rescheduled"], time(900), "scheduled"],
                [[3, time(90), "ended"], time(900), "ended"],
                [[4, time(90), "announced"], time(600), "scheduled"],
            ])
        );
        assert_eq!(all["process"], time(0));
        assert_eq!((&all["oldest"], &all["newest"]), (&json!(1), &json!(4)));
        assert_eq!(all["open"][0]["EventId"], other["EventId"]);
        assert_eq!(all["open"].as_array().unwrap().len(), 1);
        let rest = read(Some(3));
        assert_eq!(rest["transitions"], json!([all["transitions"][3]]));
        assert_eq!(rest["open"], Value::Null);
        assert_eq!(read(Some(4))["transitions"], json!([]));
        assert_eq!(read(Some(5))["transitions"], all["transitions"]);
    }
}
