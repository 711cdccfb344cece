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
//! | `vm` | `name`, the name of this VM in `Resources`, and its instance metadata |
//! | `exporter` | `version`, `revision` |
//! | `events[]` | pending and recently ended events in the order of their ids. Besides Microsoft's members: `scope`, `advisory`, `phase` (advisory, scheduled, started, ended), `not_before`, `not_before_countdown_seconds`, `first_seen_at`, `started_at`, `ended_at`, `outcome`, `approval_decided_at`, `approval_sent_at`, `approved_at`, `approved_elsewhere_at`, `approval`, `observed_interruption_seconds`, `interruptions`, `reschedulings` |
//! | `approval` | of a pending event: `decision` (waiting, draining, due, sent, approved, approved_elsewhere, failed, withheld, dry_run), `reason` (an identifier), `at` (time of the approval, past or future), `message` (text) |

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
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
        warming_up: snapshot.health.warm_up.is_active(now),
        warming_up_until: snapshot
            .health
            .warm_up
            .until(now)
            .map(Timestamp::rfc3339_millis),
        unreadable_entries: snapshot.health.unreadable_entries,
        document_incarnation: snapshot.health.incarnation,
        health: HealthEntry::new(&snapshot.health),
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
                now,
            })
            .collect(),
    };
    azure_json::to_text(&body)
}

/// Members of this exporter. A member of Azure with the same name is left out.
const OWN_MEMBERS: [&str; 17] = [
    "scope",
    "advisory",
    "phase",
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
    fn new(health: &'a Health) -> Self {
        let failure = health.failure.as_ref().map(|failure| FailureEntry {
            reason: failure.reason.as_str(),
            message: &failure.message,
            since: failure.since.rfc3339_millis(),
        });
        Self {
            up: health.is_up(),
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

impl Serialize for EventEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tracked = self.tracked;
        let millis = |at: Option<Timestamp>| at.map(Timestamp::rfc3339_millis);
        let mut map = serializer.serialize_map(None)?;
        azure_json::members(&tracked.event, &OWN_MEMBERS, &mut map)?;
        map.serialize_entry("scope", tracked.scope.as_str())?;
        map.serialize_entry("advisory", &tracked.event.is_advisory())?;
        map.serialize_entry("phase", tracked.phase().as_str())?;
        map.serialize_entry("not_before", &millis(tracked.event.not_before))?;
        let countdown = tracked.countdown_seconds(self.now.wall);
        map.serialize_entry("not_before_countdown_seconds", &countdown)?;
        map.serialize_entry("first_seen_at", &millis(Some(tracked.first_seen_at)))?;
        map.serialize_entry("started_at", &millis(tracked.started_at))?;
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        snapshot::{ApprovalReason, FailureReason},
        web::fixtures::{at, due, freeze, snapshot_after},
    };

    fn read(snapshot: &Snapshot, now: Moment) -> Value {
        serde_json::from_str(&json(snapshot, now).unwrap()).unwrap()
    }

    #[test]
    fn event_has_the_members_of_azure_and_of_this_exporter() {
        let unknown = json!({"Impact": {"Level": [1, "two"]}, "scope": "theirs"});
        let moved = json!({"NotBefore": due(900)});
        let snapshot = snapshot_after(&[
            (0, json!([freeze(&unknown)])),
            (60, json!([freeze(&moved)])),
            (
                120,
                json!([freeze(&json!({"EventStatus": "Started", "NotBefore": ""}))]),
            ),
            (150, json!([])),
        ]);
        assert_eq!(
            read(&snapshot, at(160))["events"],
            json!([{
                "EventId": "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265",
                "EventType": "Freeze",
                "ResourceType": "VirtualMachine",
                "Resources": ["web_1"],
                "EventStatus": "Started",
                "NotBefore": "Tue, 17 Nov 2026 09:15:00 GMT",
                "Description": "Host server is undergoing maintenance.",
                "EventSource": "Platform",
                "DurationInSeconds": 9,
                "scope": "self",
                "advisory": false,
                "phase": "ended",
                "not_before": "2026-11-17T09:15:00.000Z",
                "not_before_countdown_seconds": null,
                "first_seen_at": "2026-11-17T09:00:00.000Z",
                "started_at": "2026-11-17T09:02:00.000Z",
                "ended_at": "2026-11-17T09:02:30.000Z",
                "outcome": "completed",
                "approval_decided_at": null,
                "approval_sent_at": null,
                "approved_at": null,
                "approved_elsewhere_at": "2026-11-17T09:02:00.000Z",
                "approval": null,
                "observed_interruption_seconds": null,
                "interruptions": [],
                "reschedulings": [{
                    "at": "2026-11-17T09:01:00.000Z",
                    "from": "2026-11-17T09:10:00.000Z",
                    "to": "2026-11-17T09:15:00.000Z",
                }],
            }])
        );
    }

    #[test]
    fn unknown_members_are_unchanged_and_no_name_appears_twice() {
        let unknown = json!({"Impact": {"Level": [1, "two"]}, "scope": "theirs"});
        let snapshot = snapshot_after(&[(0, json!([freeze(&unknown)]))]);
        let text = json(&snapshot, at(1)).unwrap();
        let events = read(&snapshot, at(1))["events"].clone();
        assert_eq!(events[0]["Impact"], json!({"Level": [1, "two"]}));
        assert_eq!(events[0]["scope"], "self");
        assert_eq!(text.matches("\"scope\"").count(), 1, "{text}");
    }

    #[test]
    fn invisible_characters_are_escaped_and_no_name_differs_only_in_case() {
        let hostile = "a\u{9b}31m\u{202e}\u{200b}b";
        let unknown = json!({"Scope": "theirs", "Impact": [hostile], "Description": hostile});
        let snapshot = snapshot_after(&[(0, json!([freeze(&unknown)]))]);
        let text = json(&snapshot, at(1)).unwrap();
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
        assert!(!text.contains(['\u{202e}', '\u{200b}']), "{text}");
        let event = read(&snapshot, at(1))["events"][0].clone();
        assert_eq!(event["Impact"], json!([hostile]));
        assert_eq!(event["Description"], hostile);
        assert_eq!(event["Scope"], Value::Null);
    }

    #[test]
    fn approval_decision_is_included() {
        let mut snapshot = snapshot_after(&[(0, json!([freeze(&json!({}))]))]);
        let id = snapshot.events[0].event.id.clone();
        let waiting = Approval::Waiting {
            reason: ApprovalReason::ShortFreeze,
            leader: "web_0".into(),
            until: at(60).wall,
        };
        snapshot.approvals = std::sync::Arc::new([(id, waiting)].into());
        let approval = read(&snapshot, at(1))["events"][0]["approval"].clone();
        assert_eq!(approval["decision"], "waiting");
        assert_eq!(approval["reason"], "short_freeze");
        assert_eq!(approval["at"], "2026-11-17T09:01:00.000Z");
        let message = approval["message"].as_str().unwrap();
        assert!(
            message.starts_with("web_0 is its first resource"),
            "{message}"
        );
    }

    #[test]
    fn countdown_is_relative_to_the_request() {
        let snapshot = snapshot_after(&[(0, json!([freeze(&json!({}))]))]);
        let countdown = |seconds| {
            read(&snapshot, at(seconds))["events"][0]["not_before_countdown_seconds"].clone()
        };
        assert_eq!(countdown(0), json!(600.0));
        assert_eq!(countdown(610), json!(-10.0));
    }

    #[test]
    fn advisory_is_marked_and_has_no_countdown() {
        let advisory = json!([freeze(&json!({"EventStatus": "Advisory"}))]);
        let event = |documents: &[(u64, Value)]| {
            read(&snapshot_after(documents), at(30))["events"][0].clone()
        };
        let pending = event(&[(0, advisory.clone())]);
        assert_eq!(pending["advisory"], true);
        assert_eq!(pending["phase"], "advisory");
        assert_eq!(pending["EventStatus"], "Advisory");
        assert_eq!(pending["not_before_countdown_seconds"], Value::Null);
        assert_eq!(pending["approval"]["reason"], "advisory");
        let message = "Advisory: nothing to approve";
        assert_eq!(pending["approval"]["message"], message);
        let ended = event(&[(0, advisory), (20, json!([]))]);
        assert_eq!(ended["advisory"], true);
        assert_eq!(ended["phase"], "ended");
        assert_eq!(ended["outcome"], "unknown");
    }

    #[test]
    fn unknown_values_are_null() {
        let bare = json!([{"EventId": "1", "EventType": "Reboot", "EventStatus": "Scheduled"}]);
        let event = read(&snapshot_after(&[(0, bare)]), at(0))["events"][0].clone();
        for member in [
            "Resources",
            "Description",
            "EventSource",
            "not_before",
            "outcome",
        ] {
            assert_eq!(event[member], Value::Null, "{member}");
        }
        assert_eq!(event["DurationInSeconds"], -1);
        assert_eq!(event["NotBefore"], "");
        assert_eq!(event["scope"], "unknown");
    }

    #[test]
    fn document_without_events_differs_from_no_document() {
        let mut snapshot = Snapshot::empty(None, at(0));
        snapshot.health.fail(
            FailureReason::Status5xx,
            "500 \"quoted\"\n".to_owned(),
            at(0).wall,
        );
        let without_document = read(&snapshot, at(5));
        assert_eq!(without_document["has_document"], false);
        assert_eq!(without_document["events"], json!([]));
        assert_eq!(without_document["vm"]["name"], Value::Null);
        assert_eq!(
            without_document["health"]["failure"],
            json!({"reason": "status_5xx", "message": "500 \"quoted\"\n", "since": "2026-11-17T09:00:00.000Z"})
        );
        let empty = read(&snapshot_after(&[(0, json!([]))]), at(5));
        assert_eq!(empty["has_document"], true);
        assert_eq!(empty["unreadable_entries"], 0);
        assert_eq!(empty["health"]["up"], true);
        assert_eq!(empty["now"], "2026-11-17T09:00:05.000Z");
    }
}
