//! `/api/v1/events`: the snapshot as JSON.
//!
//! The schema is stable: members may be added, but none changes its meaning. `docs/http.md` describes them. An event
//! has Microsoft's members with Microsoft's names and formats; the members of this exporter have names in lower case.
//! Its times are RFC 3339 in UTC, its durations are seconds, and unknown values are null.

#[cfg(test)]
mod tests;
mod transitions;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use crate::{
    azure::{Identity, azure_json, event::EventScope},
    base::time::{Moment, Timestamp},
    core::{
        approval::Approval,
        assessment::{self, AlertState},
        lifecycle::TrackedEvent,
        snapshot::{Health, Snapshot},
    },
};

pub(super) use transitions::{After, transitions_json};

/// # Errors
/// None in practice: every value of a snapshot can be serialised.
pub(super) fn json(snapshot: &Snapshot, now: Moment) -> serde_json::Result<String> {
    azure_json::to_text(&Body { snapshot, now })
}

fn millis(at: Option<Timestamp>) -> Option<String> {
    at.map(Timestamp::rfc3339_millis)
}

struct Body<'a> {
    snapshot: &'a Snapshot,
    now: Moment,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { snapshot, now } = *self;
        let health = &snapshot.health;
        let age = health.age(now).map(|age| age.as_secs_f64());
        let vm = vm(snapshot);
        let members = [
            ("as_of", json!(snapshot.as_of.wall.rfc3339_millis())),
            ("now", json!(now.wall.rfc3339_millis())),
            ("has_document", json!(snapshot.has_document)),
            ("stale", json!(!snapshot.knows_events(now))),
            ("document_age_seconds", json!(age)),
            ("warming_up", json!(health.is_warming_up(now))),
            (
                "warming_up_until",
                json!(millis(health.warming_up_until(now))),
            ),
            ("unreadable_entries", json!(health.unreadable_entries)),
            ("document_incarnation", json!(health.incarnation)),
            ("health", health_members(health, now)),
            ("vm", vm),
            (
                "exporter",
                json!({"version": env!("CARGO_PKG_VERSION"), "revision": env!("BUILD_REVISION")}),
            ),
        ];
        let context = EventContext::new(snapshot);
        let events = snapshot.events.iter();
        let events = events.map(|tracked| EventEntry::current(tracked, &context, now));
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in members {
            map.serialize_entry(name, &value)?;
        }
        map.serialize_entry("events", &events.collect::<Vec<_>>())?;
        map.end()
    }
}

fn health_members(health: &Health, now: Moment) -> Value {
    let failure = health.failure.as_ref().map(|failure| {
        json!({
            "reason": failure.reason.as_str(),
            "message": failure.message,
            "since": failure.since.rfc3339_millis(),
        })
    });
    let failures = health.failures();
    let failures: BTreeMap<_, _> = failures.map(|(reason, n)| (reason.as_str(), n)).collect();
    json!({
        "up": health.is_up(now),
        "last_success_at": millis(health.last_success_at()),
        "failure": failure,
        "requests": health.requests,
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
    json!({
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
    })
}

/// What the members of an event depend on beside the event.
struct EventContext<'a> {
    snapshot: &'a Snapshot,
    /// The types of the events of this VM that have not ended, each with their number.
    open_types: BTreeMap<&'a str, usize>,
}

impl<'a> EventContext<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let mut open_types = BTreeMap::new();
        for tracked in snapshot.pending().filter(|it| it.scope == EventScope::Own) {
            *open_types
                .entry(tracked.event.event_type.as_str())
                .or_default() += 1;
        }
        Self {
            snapshot,
            open_types,
        }
    }

    /// The types of those beside this event.
    fn other_open_types(&self, tracked: &TrackedEvent) -> Vec<&'a str> {
        let known = self.snapshot.events.iter();
        let current = known
            .as_slice()
            .binary_search_by(|known| known.event.id.cmp(&tracked.event.id))
            .ok()
            .and_then(|position| self.snapshot.events.get(position))
            .filter(|it| it.is_maintenance_pending() && it.scope == EventScope::Own)
            .map(|it| it.event.event_type.as_str());
        let types = self.open_types.iter();
        let others = types.filter(|(name, count)| **count > usize::from(current == Some(**name)));
        others.map(|(name, _)| *name).collect()
    }
}

struct EventEntry<'a> {
    tracked: &'a TrackedEvent,
    approval: Option<&'a Approval>,
    context: &'a EventContext<'a>,
    now: Timestamp,
}

impl Serialize for EventEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.own_members();
        let mut map = serializer.serialize_map(None)?;
        azure_json::members(
            &self.tracked.event,
            &own.each_ref().map(|(name, _)| *name),
            &mut map,
        )?;
        for (name, value) in own {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

impl<'a> EventEntry<'a> {
    fn current(tracked: &'a TrackedEvent, context: &'a EventContext<'a>, now: Moment) -> Self {
        Self {
            tracked,
            approval: context.snapshot.approvals.get(&tracked.event.id),
            context,
            now: now.wall,
        }
    }

    /// Members of this exporter. A member of Azure with the same name is left out.
    fn own_members(&self) -> [(&'static str, Value); 22] {
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
        let summary = assessment::message(tracked, context.snapshot, now).summary;
        let approval = decision.map(approval);
        let longest = tracked.observed_interruption();
        let interruptions = tracked.interruptions.iter().map(|interruption| {
            let seconds = interruption.length.as_secs_f64();
            json!({"until": interruption.until.rfc3339_millis(), "seconds": seconds})
        });
        let reschedulings = tracked.reschedulings.iter().map(|change| {
            let (at, to) = (change.at.rfc3339_millis(), change.to.rfc3339_millis());
            json!({"at": at, "from": millis(change.from), "to": to})
        });
        let time = |at| json!(millis(at));
        [
            ("scope", json!(tracked.scope.as_str())),
            ("computer_name", json!(computer_name)),
            ("advisory", json!(tracked.event.is_advisory())),
            ("phase", json!(tracked.phase().as_str())),
            ("interrupts_vm", json!(assessment::interrupts_vm(tracked))),
            ("alerts", alerts(tracked, now)),
            ("summary", json!(summary)),
            ("other_open_types", json!(context.other_open_types(tracked))),
            ("not_before", time(tracked.event.not_before)),
            (
                "not_before_countdown_seconds",
                json!(tracked.countdown_seconds(now)),
            ),
            ("first_seen_at", time(Some(tracked.first_seen_at))),
            ("started_at", time(tracked.running_since())),
            ("ended_at", time(tracked.end.map(|end| end.at))),
            (
                "outcome",
                json!(tracked.end.map(|end| end.outcome.as_str())),
            ),
            ("approval_decided_at", time(tracked.approval.decision_at())),
            ("approval_sent_at", time(tracked.approval.sent_at)),
            ("approved_at", time(tracked.approval.accepted_at)),
            ("approved_elsewhere_at", time(tracked.approval.elsewhere_at)),
            ("approval", json!(approval)),
            (
                "observed_interruption_seconds",
                json!(longest.map(|length| length.as_secs_f64())),
            ),
            ("interruptions", interruptions.collect()),
            ("reschedulings", reschedulings.collect()),
        ]
    }
}

fn approval(approval: &Approval) -> Value {
    json!({
        "decision": approval.decision(),
        "reason": approval.reason(),
        "at": millis(approval.at()),
        "message": approval.message(),
    })
}

/// Those that fire.
fn alerts(tracked: &TrackedEvent, now: Timestamp) -> Value {
    let alerts = assessment::alerts(tracked, now).into_iter();
    alerts
        .filter(|alert| alert.state == AlertState::Firing && alert.rule.is_notified())
        .map(|alert| json!({"name": alert.rule.name, "severity": alert.rule.severity}))
        .collect()
}
