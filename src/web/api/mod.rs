//! `/api/v1/events`: the snapshot as JSON.
//!
//! The schema is stable: members may be added, but none changes its meaning. An event has Microsoft's members with
//! Microsoft's names and formats: `NotBefore` in RFC 1123, `DurationInSeconds` -1 if unknown, unknown members
//! unchanged. The members of this exporter have names in lower case. Its times are RFC 3339 in UTC, its durations are
//! seconds, and unknown values are null.
//!
//! | member | meaning |
//! |---|---|
//! | `as_of`, `now` | time of the snapshot and time of the request |
//! | `has_document` | false until a document has been read; an empty `events` has no meaning then |
//! | `unreadable_entries` | entries of the last document that could not be read; each may be an event |
//! | `stale` | true while the events are unknown: no document was read, or polls fail and the last document is older than an hour |
//! | `document_age_seconds` | time since a document was last read or confirmed, also before a restart of the exporter |
//! | `warming_up`, `warming_up_until` | Scheduled Events was just enabled: events may take until then to appear, and an empty `events` does not mean that none is scheduled |
//! | `document_incarnation` | of the last valid document, also before a restart of the exporter |
//! | `health` | `up`, `last_success_at`, `failure` (`reason`, `message`, `since`), `requests`, `failures` by reason |
//! | `vm` | `name`, the name of this VM in `Resources`, and its instance metadata; `metadata_name` is the name in these |
//! | `exporter` | `version`, `revision` |
//! | `events[]` | pending and recently ended events in the order of their ids. Besides Microsoft's members: `scope`, `advisory`, `phase` (advisory, scheduled, started, ended), `interrupts_vm` (whether it pauses or stops this VM), `alerts` (`name`, `severity`; those that it has now), `summary` (of these alerts), `not_before`, `not_before_countdown_seconds`, `first_seen_at`, `started_at`, `ended_at`, `outcome`, `approval_decided_at`, `approval_sent_at`, `approved_at`, `approved_elsewhere_at`, `approval`, `observed_interruption_seconds`, `interruptions`, `reschedulings` |
//! | `approval` | of a pending event: `decision` (waiting, draining, due, sent, approved, approved_elsewhere, failed, withheld, dry_run), `reason` (an identifier), `at` (time of the approval, past or future), `message` (text) |

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    assessment::{self, AlertState},
    azure_json,
    lifecycle::TrackedEvent,
    snapshot::{Approval, Health, Identity, Snapshot},
    time::{Moment, Timestamp},
};

/// # Errors
/// None in practice: every value of a snapshot can be serialised.
pub(super) fn json(snapshot: &Snapshot, now: Moment) -> serde_json::Result<String> {
    let body = Body {
        as_of: snapshot.as_of.wall.rfc3339_millis(),
        now: now.wall.rfc3339_millis(),
        has_document: snapshot.has_document,
        stale: !snapshot.knows_events(now),
        document_age_seconds: snapshot.health.age(now).map(|age| age.as_secs_f64()),
        warming_up: snapshot.health.is_warming_up(now),
        warming_up_until: snapshot
            .health
            .warming_up_until(now)
            .map(Timestamp::rfc3339_millis),
        unreadable_entries: snapshot.health.unreadable_entries,
        document_incarnation: snapshot.health.incarnation,
        health: HealthEntry::new(&snapshot.health, now),
        vm: VmEntry::new(snapshot.vm_name.as_deref(), snapshot.identity.as_deref()),
        exporter: Exporter {
            version: env!("CARGO_PKG_VERSION"),
            revision: env!("BUILD_REVISION"),
        },
        events: snapshot
            .events
            .iter()
            .map(|tracked| EventEntry {
                tracked,
                approval: snapshot.approvals.get(&tracked.event.id),
                snapshot,
                now,
            })
            .collect(),
    };
    azure_json::to_text(&body)
}

/// Members of this exporter. A member of Azure with the same name is left out.
const OWN_MEMBERS: [&str; 20] = [
    "scope",
    "advisory",
    "phase",
    "interrupts_vm",
    "alerts",
    "summary",
    "not_before",
    "not_before_countdown_seconds",
    "first_seen_at",
    "started_at",
    "ended_at",
    "outcome",
    "approval_decided_at",
    "approval_sent_at",
    "approved_at",
    "approved_elsewhere_at",
    "approval",
    "observed_interruption_seconds",
    "interruptions",
    "reschedulings",
];

#[derive(Serialize)]
struct Body<'a> {
    as_of: String,
    now: String,
    has_document: bool,
    stale: bool,
    document_age_seconds: Option<f64>,
    warming_up: bool,
    warming_up_until: Option<String>,
    unreadable_entries: usize,
    document_incarnation: Option<i64>,
    health: HealthEntry<'a>,
    vm: VmEntry<'a>,
    exporter: Exporter,
    events: Vec<EventEntry<'a>>,
}

#[derive(Serialize)]
struct Exporter {
    version: &'static str,
    revision: &'static str,
}

#[derive(Serialize)]
struct HealthEntry<'a> {
    up: bool,
    last_success_at: Option<String>,
    failure: Option<FailureEntry<'a>>,
    requests: u64,
    failures: BTreeMap<&'static str, u64>,
}

#[derive(Serialize)]
struct FailureEntry<'a> {
    reason: &'static str,
    message: &'a str,
    since: String,
}

impl<'a> HealthEntry<'a> {
    fn new(health: &'a Health, now: Moment) -> Self {
        let failure = health.failure.as_ref().map(|failure| FailureEntry {
            reason: failure.reason.as_str(),
            message: &failure.message,
            since: failure.since.rfc3339_millis(),
        });
        Self {
            up: health.is_up(now),
            last_success_at: health.last_success_at().map(Timestamp::rfc3339_millis),
            failure,
            requests: health.requests,
            failures: health
                .failures()
                .map(|(reason, count)| (reason.as_str(), count))
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct VmEntry<'a> {
    name: Option<&'a str>,
    metadata_name: Option<&'a str>,
    vm_id: Option<&'a str>,
    scale_set: Option<&'a str>,
    vm_size: Option<&'a str>,
    location: Option<&'a str>,
    zone: Option<&'a str>,
    subscription_id: Option<&'a str>,
    resource_group: Option<&'a str>,
    resource_id: Option<&'a str>,
    computer_name: Option<&'a str>,
}

impl<'a> VmEntry<'a> {
    fn new(vm_name: Option<&'a str>, identity: Option<&'a Identity>) -> Self {
        let non_empty = |value: fn(&Identity) -> &String| {
            let value = identity.map(|identity| value(identity).as_str());
            value.filter(|value| !value.is_empty())
        };
        Self {
            name: vm_name,
            metadata_name: non_empty(|vm| &vm.name),
            vm_id: non_empty(|vm| &vm.vm_id),
            scale_set: non_empty(|vm| &vm.scale_set),
            vm_size: non_empty(|vm| &vm.vm_size),
            location: non_empty(|vm| &vm.location),
            zone: non_empty(|vm| &vm.zone),
            subscription_id: non_empty(|vm| &vm.subscription_id),
            resource_group: non_empty(|vm| &vm.resource_group),
            resource_id: non_empty(|vm| &vm.resource_id),
            computer_name: non_empty(|vm| &vm.computer_name),
        }
    }
}

struct EventEntry<'a> {
    tracked: &'a TrackedEvent,
    approval: Option<&'a Approval>,
    snapshot: &'a Snapshot,
    now: Moment,
}

#[derive(Serialize)]
struct ApprovalEntry {
    decision: &'static str,
    reason: Option<&'static str>,
    at: Option<String>,
    message: String,
}

#[derive(Serialize)]
struct AlertEntry {
    name: &'static str,
    severity: &'static str,
}

#[derive(Serialize)]
struct InterruptionEntry {
    until: String,
    seconds: f64,
}

#[derive(Serialize)]
struct ReschedulingEntry {
    at: String,
    from: Option<String>,
    to: String,
}

/// Those that fire.
fn alerts(tracked: &TrackedEvent, now: Timestamp) -> Vec<AlertEntry> {
    let alerts = assessment::alerts(tracked, now).into_iter();
    alerts
        .filter(|alert| alert.state == AlertState::Firing && alert.rule.is_notified())
        .map(|alert| AlertEntry {
            name: alert.rule.name,
            severity: alert.rule.severity,
        })
        .collect()
}

impl Serialize for EventEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tracked = self.tracked;
        let millis = |at: Option<Timestamp>| at.map(Timestamp::rfc3339_millis);
        let mut map = serializer.serialize_map(None)?;
        azure_json::members(&tracked.event, &OWN_MEMBERS, &mut map)?;
        map.serialize_entry("scope", tracked.scope.as_str())?;
        map.serialize_entry("advisory", &tracked.event.is_advisory())?;
        map.serialize_entry("phase", tracked.phase().as_str())?;
        map.serialize_entry("interrupts_vm", &assessment::interrupts_vm(tracked))?;
        let now = self.now.wall;
        map.serialize_entry("alerts", &alerts(tracked, now))?;
        let summary = assessment::message(tracked, self.snapshot, now).summary;
        map.serialize_entry("summary", &summary)?;
        map.serialize_entry("not_before", &millis(tracked.event.not_before))?;
        let countdown = tracked.countdown_seconds(self.now.wall);
        map.serialize_entry("not_before_countdown_seconds", &countdown)?;
        map.serialize_entry("first_seen_at", &millis(Some(tracked.first_seen_at)))?;
        map.serialize_entry("started_at", &millis(tracked.running_since()))?;
        map.serialize_entry("ended_at", &millis(tracked.end.map(|end| end.at)))?;
        let outcome = tracked.end.map(|end| end.outcome.as_str());
        map.serialize_entry("outcome", &outcome)?;
        for (name, at) in [
            ("approval_decided_at", tracked.approval_decision_at()),
            ("approval_sent_at", tracked.approval_sent_at),
            ("approved_at", tracked.approved_at),
            ("approved_elsewhere_at", tracked.approved_elsewhere_at),
        ] {
            map.serialize_entry(name, &millis(at))?;
        }
        let approval = self.approval.map(|approval| ApprovalEntry {
            decision: approval.decision(),
            reason: approval.reason(),
            at: millis(approval.at()),
            message: approval.message(),
        });
        map.serialize_entry("approval", &approval)?;
        let longest = tracked
            .observed_interruption()
            .map(|length| length.as_secs_f64());
        map.serialize_entry("observed_interruption_seconds", &longest)?;
        let interruptions = tracked
            .interruptions
            .iter()
            .map(|interruption| InterruptionEntry {
                until: interruption.until.rfc3339_millis(),
                seconds: interruption.length.as_secs_f64(),
            });
        map.serialize_entry("interruptions", &interruptions.collect::<Vec<_>>())?;
        let reschedulings = tracked
            .reschedulings
            .iter()
            .map(|change| ReschedulingEntry {
                at: change.at.rfc3339_millis(),
                from: millis(change.from),
                to: change.to.rfc3339_millis(),
            });
        map.serialize_entry("reschedulings", &reschedulings.collect::<Vec<_>>())?;
        map.end()
    }
}
