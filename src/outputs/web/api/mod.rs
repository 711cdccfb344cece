//! `/api/v1/events`: the snapshot as JSON. `/api/v1/transitions`: the last transitions of events, numbered.
//!
//! The schema is stable: members may be added, but none changes its meaning. `docs/http.md` describes them. An event
//! has Microsoft's members with Microsoft's names and formats; the members of this exporter have names in lower case.
//! Its times are RFC 3339 in UTC, its durations are seconds, and unknown values are null.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use crate::{
    azure::{
        Identity,
        event::{self, Event, EventScope, EventType, Status},
    },
    base::{
        json::to_text,
        text::{escape_json, json_length},
        time::{Moment, Timestamp},
    },
    core::{
        approval::{ApprovalDecision, ApprovalStep},
        assessment::{AlertRule, judge},
        lifecycle::{TrackedEvent, Transition, TransitionKind},
        snapshot::Snapshot,
    },
};

/// Undocumented types of other events, which each event lists.
const MAX_OTHER_TYPES_BYTES: usize = 256;

/// `lead_time`: an event is due that can start within it.
pub(super) fn json(
    snapshot: &Snapshot,
    lead_time: Duration,
    now: Moment,
) -> serde_json::Result<String> {
    let context = EventContext::new(snapshot, lead_time, now);
    let events = snapshot.events.iter();
    let events = events.map(|tracked| context.current(tracked));
    to_text(&EventList {
        members: members(snapshot, now),
        events: events.collect(),
    })
}

#[derive(Serialize)]
struct EventList<'a> {
    #[serde(flatten)]
    members: Value,
    events: Vec<EventEntry<'a>>,
}

fn members(snapshot: &Snapshot, now: Moment) -> Value {
    let poll = &snapshot.poll;
    json!({
        "as_of": snapshot.as_of.wall.rfc3339_millis(),
        "now": now.wall.rfc3339_millis(),
        "has_document": snapshot.has_document(),
        "stale": !snapshot.knows_events(now),
        "document_age_seconds": poll.age(now).map(|age| age.as_secs_f64()),
        "warming_up": poll.is_warming_up(now),
        "warming_up_until": millis(poll.warming_up_until(now)),
        "unreadable_entries": poll.unreadable_entries,
        "document_incarnation": poll.incarnation(),
        "health": health(snapshot, now),
        "vm": vm(snapshot),
        "exporter": {"version": env!("CARGO_PKG_VERSION"), "revision": env!("BUILD_REVISION")},
    })
}

fn millis(at: Option<Timestamp>) -> Option<String> {
    at.map(Timestamp::rfc3339_millis)
}

fn health(snapshot: &Snapshot, now: Moment) -> Value {
    let (poll, requests) = (&snapshot.poll, &snapshot.requests);
    let failure = poll.failure.as_ref().map(|failure| {
        json!({
            "reason": failure.error.reason.as_str(),
            "message": failure.error.message,
            "since": failure.since.wall.rfc3339_millis(),
        })
    });
    let failures = requests.failures.iter();
    let failures: BTreeMap<_, _> = failures.map(|(reason, n)| (reason.as_str(), n)).collect();
    json!({
        "up": poll.is_up(now),
        "last_success_at": millis(poll.last_success_at()),
        "failure": failure,
        "requests": requests.requests,
        "failures": failures,
    })
}

fn vm(snapshot: &Snapshot) -> Value {
    let identity = snapshot.identity.as_deref();
    let error = snapshot.identity_error.as_deref();
    let non_empty = |value: fn(&Identity) -> &String| {
        let value = identity.map(|identity| value(identity).as_str());
        value.filter(|value| !value.is_empty())
    };
    let mut vm = json!({
        "name": snapshot.vm_name,
        "name_mismatch": snapshot.other_vm_name().is_some(),
        "metadata_error": error.map(|error| &error.message),
        "metadata_name": non_empty(|vm| &vm.name),
        "vm_id": non_empty(|vm| &vm.vm_id),
        "scale_set": non_empty(|vm| &vm.scale_set),
        "vm_size": non_empty(|vm| &vm.vm_size),
        "location": non_empty(|vm| &vm.location),
        "zone": non_empty(|vm| &vm.zone),
        "subscription_id": non_empty(|vm| &vm.subscription_id),
        "resource_group": non_empty(|vm| &vm.resource_group),
        "resource_id": non_empty(|vm| &vm.resource_id),
        "computer_name": non_empty(|vm| &vm.computer_name),
    });
    if let (Value::Object(members), Some(owner)) = (&mut vm, &snapshot.owner) {
        members.insert("owner".to_owned(), json!(owner));
    }
    vm
}

struct EventContext<'a> {
    snapshot: &'a Snapshot,
    now: Moment,
    /// The events of this VM that have not ended, without advisories; with true those that have started or can start
    /// within `--serving.lead-time`.
    open: Vec<(&'a Event, bool)>,
}

impl<'a> EventContext<'a> {
    fn new(snapshot: &'a Snapshot, lead_time: Duration, now: Moment) -> Self {
        let own = snapshot.pending().filter(|it| it.scope == EventScope::Own);
        let open = own.map(|it| (&it.shown, judge(it, now).is_due(lead_time)));
        let (mut counts, mut left) = (BTreeMap::new(), MAX_OTHER_TYPES_BYTES);
        // A second one tells the first that there is another one.
        let open = open.filter(|(event, is_due)| {
            let bytes = match &event.event_type {
                EventType::Other(name) => json_length(name),
                _ => 0,
            };
            let count = counts.entry((event.event_type.as_str(), *is_due));
            let count = count.and_modify(|count| *count += 1).or_insert(1);
            let is_kept = *count <= 2 && bytes <= left;
            left -= if is_kept { bytes } else { 0 };
            is_kept
        });
        Self {
            snapshot,
            now,
            open: open.collect(),
        }
    }

    fn current(&'a self, tracked: &'a TrackedEvent) -> EventEntry<'a> {
        EventEntry {
            tracked,
            approval: self.snapshot.approvals.get(&tracked.shown.id),
            context: self,
            now: self.now,
        }
    }

    /// The types of those beside this event, or of the due ones among them.
    fn other_types(&self, tracked: &TrackedEvent, only_due: bool) -> BTreeSet<&'a str> {
        let open = self.open.iter();
        let others = open.filter(|(event, _)| event.id != tracked.shown.id);
        let others = others.filter(|(_, is_due)| *is_due || !only_due);
        others.map(|(event, _)| event.event_type.as_str()).collect()
    }
}

struct EventEntry<'a> {
    tracked: &'a TrackedEvent,
    approval: Option<&'a ApprovalDecision>,
    context: &'a EventContext<'a>,
    now: Moment,
}

impl Serialize for EventEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.own_members();
        let mut map = serializer.serialize_map(None)?;
        event::serialize_members(
            &self.tracked.shown,
            &own.each_ref().map(|(name, _)| *name),
            &mut map,
        )?;
        // Most VMs have no physical hosts.
        let is_shown = |name| name != "physical_host" && name != "moved_to";
        for (name, value) in own {
            if is_shown(name) || !value.is_null() {
                map.serialize_entry(name, &value)?;
            }
        }
        map.end()
    }
}

impl EventEntry<'_> {
    /// Members of this exporter. A member of Azure with the same name is left out.
    fn own_members(&self) -> [(&'static str, Value); 25] {
        let Self {
            tracked,
            approval: decision,
            context,
            now,
        } = *self;
        let identity = context.snapshot.identity.as_deref();
        let computer_name = identity
            .filter(|vm| tracked.scope == EventScope::Own && !vm.computer_name.is_empty())
            .map(|vm| &vm.computer_name);
        let judgement = judge(tracked, now);
        let alert =
            |rule: AlertRule| json!({"name": rule.name, "severity": rule.severity.as_str()});
        let approval = decision.map(approval);
        let outcome = tracked.end.map(|end| end.outcome.as_str());
        let longest = tracked.longest_interruption;
        let interruptions = tracked.interruptions.iter().map(|interruption| {
            let seconds = interruption.length.as_secs_f64();
            json!({"until": interruption.until.rfc3339_millis(), "seconds": seconds})
        });
        let reschedulings = tracked.reschedulings.iter().map(|change| {
            let (at, to) = (change.at.rfc3339_millis(), change.to.rfc3339_millis());
            json!({"at": at, "from": millis(change.from), "to": to})
        });
        let time = |at| json!(millis(at));
        let other_types = |only_due| json!(context.other_types(tracked, only_due));
        let step = |step| time(tracked.approval.at(&step));
        [
            ("scope", json!(tracked.scope.as_str())),
            ("computer_name", json!(computer_name)),
            ("advisory", json!(tracked.shown.is_advisory())),
            ("phase", json!(tracked.phase().as_str())),
            ("interrupts_vm", json!(judgement.interrupts_vm())),
            ("alerts", judgement.firing().map(alert).collect()),
            ("summary", json!(judgement.words(context.snapshot).summary)),
            ("other_open_types", other_types(false)),
            ("other_due_types", other_types(true)),
            ("not_before", time(tracked.shown.not_before)),
            (
                "not_before_countdown_seconds",
                json!(tracked.countdown_seconds(now.wall)),
            ),
            ("first_seen_at", time(Some(tracked.first_seen_at))),
            ("started_at", time(tracked.running_since())),
            ("ended_at", time(tracked.end.map(|end| end.at))),
            ("outcome", json!(outcome)),
            ("approval_decided_at", time(tracked.approval.intended_at())),
            ("approval_sent_at", time(tracked.approval.sent_at())),
            ("approved_at", step(ApprovalStep::Accepted)),
            ("approved_elsewhere_at", step(ApprovalStep::Elsewhere)),
            ("approval", json!(approval)),
            (
                "observed_interruption_seconds",
                json!(longest.map(|length| length.as_secs_f64())),
            ),
            ("interruptions", interruptions.collect()),
            ("reschedulings", reschedulings.collect()),
            ("physical_host", json!(tracked.physical_host())),
            ("moved_to", json!(tracked.moved_to())),
        ]
    }
}

fn approval(approval: &ApprovalDecision) -> Value {
    json!({
        "decision": approval.decision(),
        "reason": approval.reason(),
        "at": millis(approval.at()),
        "message": approval.message(),
    })
}

/// The parameter `after`: the number of the last transition that the client has read.
pub(super) fn after(query: Option<&str>) -> Result<Option<u64>, &'static str> {
    let parameters = query.unwrap_or_default().split('&');
    let mut values = parameters.filter_map(|parameter| match parameter.split_once('=') {
        Some(("after", value)) => Some(value),
        _ => (parameter == "after").then_some(""),
    });
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || values.next().is_some() {
        return Err(
            "400: after must be the number of the last transition that you have read, such as after=17, once\n",
        );
    }
    // No journal has reached a number that is too large.
    Ok(Some(value.parse().unwrap_or(u64::MAX)))
}

/// Each transition is one line.
pub(super) fn transitions_json(
    snapshot: &Snapshot,
    after: Option<u64>,
    lead_time: Duration,
    now: Moment,
) -> serde_json::Result<String> {
    let journal = &*snapshot.journal;
    let mut open: Vec<_> = snapshot
        .events
        .iter()
        .filter(|it| it.is_pending())
        .collect();
    open.sort_by_key(|tracked| tracked.first_seen_at);
    let context = EventContext::new(snapshot, lead_time, now);
    let open = open.into_iter().map(|tracked| context.current(tracked));
    let entries = journal.after(after.unwrap_or(0));
    let transitions = entries.filter_map(|entry| {
        let Transition { at, tracked, .. } = &entry.transition;
        let was_scope = entry.transition.was_scope();
        Some(TransitionEntry {
            number: entry.number,
            at: at.wall.rfc3339_millis(),
            transition: transition_name(&entry.transition)?,
            was_scope: (was_scope != tracked.scope).then(|| was_scope.as_str()),
            event: EventEntry {
                tracked,
                approval: entry.approval.as_ref(),
                context: &context,
                now: *at,
            },
        })
    });
    let time = |number| millis(journal.get(number).map(|entry| entry.at()));
    let body = TransitionList {
        journal: &journal.id,
        members: members(snapshot, now),
        first: journal.first,
        oldest: journal.oldest(),
        newest: journal.newest,
        newest_at: time(journal.newest),
        on_disk: journal.on_disk,
        after_at: after.and_then(time),
        open: after.is_none().then(|| open.collect()),
        transitions: transitions.collect(),
    };
    Ok(escape_json(serde_json::to_string(&body)? + "\n"))
}

#[derive(Serialize)]
struct TransitionList<'a> {
    journal: &'a str,
    #[serde(flatten)]
    members: Value,
    first: u64,
    oldest: u64,
    newest: u64,
    newest_at: Option<String>,
    on_disk: u64,
    after_at: Option<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    was_scope: Option<&'static str>,
    event: EventEntry<'a>,
}

/// `None` for one that readers see in the members of the event alone.
fn transition_name(transition: &Transition) -> Option<&'static str> {
    let event = &transition.tracked.shown;
    match &transition.kind {
        _ if transition.is_before_change_of_scope() => None,
        TransitionKind::Announced | TransitionKind::Returned { .. } if event.is_advisory() => {
            Some("advisory")
        }
        TransitionKind::Announced | TransitionKind::Returned { .. } => Some("announced"),
        TransitionKind::Rescheduled(_) => Some("rescheduled"),
        TransitionKind::StatusChanged(_) if event.status == Status::Started => Some("started"),
        TransitionKind::StatusChanged(_) | TransitionKind::Amended { .. } => Some("changed"),
        TransitionKind::Started => Some("started"),
        TransitionKind::Ended(_) => Some("ended"),
        TransitionKind::Approved
        | TransitionKind::ApprovedElsewhere
        | TransitionKind::Interrupted(_) => None,
    }
}
