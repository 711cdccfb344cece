//! What probes ask: whether this exporter knows anything yet, and whether this VM should be given work. Pure.

use std::time::Duration;

use super::ProbeResult;
use crate::{
    event::EventScope,
    lifecycle::{Phase, TrackedEvent},
    snapshot::Snapshot,
    time::{Moment, in_words},
};

/// Whether a poll of this process has succeeded. It stays a yes when later ones fail: what is known is kept.
pub fn ready(snapshot: &Snapshot) -> ProbeResult {
    let holds = snapshot.health.last_success.is_some();
    let reason = match (&snapshot.health.failure, holds) {
        (_, true) => "ready".to_owned(),
        (None, false) => "not ready: no answer from IMDS yet".to_owned(),
        (Some(failure), false) => format!(
            "not ready: no good answer from IMDS yet, the last one failed: {}",
            failure.reason.as_str()
        ),
    };
    ProbeResult { holds, reason }
}

/// Whether a load balancer should send work to this VM: not while an event that names it has started or is due within
/// `lead_time`. An announced duration of 0 is no reason to go.
///
/// While nothing is known it is a yes: an exporter that starts, or that cannot reach IMDS, must not take a VM out, still
/// less all VMs at once. An event without any NotBefore is no reason to go until it starts.
pub fn serving(snapshot: &Snapshot, lead_time: Duration, now: Moment) -> ProbeResult {
    let due = snapshot
        .pending()
        .filter(|tracked| {
            tracked.scope == EventScope::Own && tracked.event.duration_seconds != Some(0)
        })
        .filter_map(|tracked| Some((seconds_until(tracked, now)?, tracked)))
        .filter(|(seconds, _)| *seconds <= lead_time.as_secs_f64())
        .min_by(|(one, _), (other, _)| one.total_cmp(other));
    due.map_or_else(
        || ProbeResult {
            holds: true,
            reason: "serving".to_owned(),
        },
        |(seconds, tracked)| ProbeResult {
            holds: false,
            reason: format!(
                "not serving: {} {}",
                tracked.event.event_type.as_str().escape_debug(),
                when(seconds, tracked.phase())
            ),
        },
    )
}

/// Seconds until an event may begin: none left once it has, not known without a NotBefore.
fn seconds_until(tracked: &TrackedEvent, now: Moment) -> Option<f64> {
    match tracked.phase() {
        Phase::Started => Some(f64::NEG_INFINITY),
        Phase::Scheduled => Some(tracked.event.not_before?.seconds_from(now.wall)),
        Phase::Ended => None,
    }
}

fn when(seconds: f64, phase: Phase) -> String {
    if phase == Phase::Started {
        return "has started".to_owned();
    }
    Duration::try_from_secs_f64(seconds).map_or_else(
        |_| "is due".to_owned(),
        |left| {
            format!(
                "may start in {}",
                in_words(Duration::from_secs(left.as_secs()))
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        snapshot::FailureReason,
        web::fixtures::{at, due, freeze, picture},
    };

    const LEAD_TIME: Duration = Duration::from_mins(5);

    #[test]
    fn ready_from_the_first_good_poll_on_whatever_comes_later() {
        let mut snapshot = Snapshot::empty(None, at(0));
        assert!(!ready(&snapshot).holds);
        snapshot
            .health
            .fail(FailureReason::Timeout, "no answer".to_owned(), at(1).wall);
        assert_eq!(
            ready(&snapshot).reason,
            "not ready: no good answer from IMDS yet, the last one failed: timeout"
        );
        snapshot.health.succeed(at(2));
        assert!(ready(&snapshot).holds);
        snapshot
            .health
            .fail(FailureReason::Gone, "410".to_owned(), at(3).wall);
        assert!(ready(&snapshot).holds);
    }

    #[test]
    fn what_an_earlier_process_knew_does_not_make_ready() {
        let mut snapshot = picture(&[(0, json!([]))]);
        snapshot.health.last_success = None;
        assert!(!ready(&snapshot).holds);
    }

    #[test]
    fn serving_ends_when_an_own_event_is_due_within_the_lead_time() {
        let snapshot = picture(&[(0, json!([freeze(&json!({}))]))]);
        let verdict = |seconds| serving(&snapshot, LEAD_TIME, at(seconds));
        assert_eq!(verdict(299).reason, "serving");
        assert_eq!(verdict(300).reason, "not serving: Freeze may start in 5m");
        assert_eq!(verdict(590).reason, "not serving: Freeze may start in 10s");
        assert_eq!(verdict(700).reason, "not serving: Freeze is due");
        assert!(!verdict(300).holds);
    }

    #[test]
    fn serving_ends_with_the_start_and_comes_back_with_the_end() {
        let started = freeze(&json!({"EventStatus": "Started", "NotBefore": ""}));
        let mut documents = vec![(0, json!([started]))];
        assert_eq!(
            serving(&picture(&documents), LEAD_TIME, at(1)).reason,
            "not serving: Freeze has started"
        );
        documents.push((60, json!([])));
        assert!(serving(&picture(&documents), LEAD_TIME, at(61)).holds);
    }

    #[test]
    fn what_does_not_hurt_this_vm_is_no_reason_to_go() {
        for (why, members) in [
            (
                "another VM's",
                json!({"Resources": ["web_2"], "NotBefore": due(10)}),
            ),
            (
                "no interruption",
                json!({"DurationInSeconds": 0, "NotBefore": due(10)}),
            ),
            ("no time", json!({"NotBefore": ""})),
            ("nobody's", json!({"Resources": null, "NotBefore": due(10)})),
        ] {
            let snapshot = picture(&[(0, json!([freeze(&members)]))]);
            assert!(serving(&snapshot, LEAD_TIME, at(1)).holds, "{why}");
        }
        let unknown_length = freeze(&json!({"DurationInSeconds": -1, "NotBefore": due(10)}));
        let snapshot = picture(&[(0, json!([unknown_length]))]);
        assert!(!serving(&snapshot, LEAD_TIME, at(1)).holds);
    }

    #[test]
    fn serving_while_nothing_is_known() {
        assert!(serving(&Snapshot::empty(None, at(0)), LEAD_TIME, at(0)).holds);
    }

    #[test]
    fn a_known_event_counts_while_polling_fails() {
        let mut snapshot = picture(&[(0, json!([freeze(&json!({}))]))]);
        snapshot
            .health
            .fail(FailureReason::Connect, "refused".to_owned(), at(1).wall);
        assert!(!serving(&snapshot, LEAD_TIME, at(400)).holds);
    }

    #[test]
    fn a_reason_is_one_line_whatever_azure_writes() {
        let snapshot = picture(&[(0, json!([freeze(&json!({"EventType": "a\r\nb"}))]))]);
        let reason = serving(&snapshot, LEAD_TIME, at(590)).reason;
        assert_eq!(reason, "not serving: a\\r\\nb may start in 10s");
    }
}
