//! Results of the probes `/-/ready` and `/-/serving`.

use std::time::Duration;

use super::ProbeResult;
use crate::{
    event::EventScope,
    lifecycle::{Phase, TrackedEvent},
    snapshot::Snapshot,
    text::label_value,
    time::{Moment, in_words},
};

/// Ready after the first successful poll of this process. Later failures change nothing, as known events are kept.
pub(super) fn ready(snapshot: &Snapshot) -> ProbeResult {
    let is_ok = snapshot.health.last_success.is_some();
    let reason = match (&snapshot.health.failure, is_ok) {
        (_, true) => "ready".to_owned(),
        (None, false) => "not ready: no response from IMDS yet".to_owned(),
        (Some(failure), false) => format!(
            "not ready: no successful poll yet, last failure: {}",
            failure.reason.as_str()
        ),
    };
    ProbeResult { is_ok, reason }
}

/// Fails while an event that names this VM has started, is due within `lead_time`, or is approved or about to be: it
/// may start at any moment then. A Freeze without an interruption and advisories do not count, nor do scheduled events
/// without a NotBefore. Other types stop the VM whatever their announced duration is.
///
/// It succeeds while no event is known: an exporter that starts, or that cannot reach IMDS, must not take its VM out of
/// the load balancer, as all VMs could be affected at once.
pub(super) fn serving(snapshot: &Snapshot, lead_time: Duration, now: Moment) -> ProbeResult {
    let due = snapshot
        .pending()
        .filter(|tracked| {
            tracked.scope == EventScope::Own
                && !tracked.event.is_without_interruption()
                && !tracked.may_be_foreign()
        })
        .filter_map(|tracked| Some((seconds_until(tracked, now)?, tracked)))
        .filter(|(seconds, _)| *seconds <= lead_time.as_secs_f64())
        .min_by(|(one, _), (other, _)| one.total_cmp(other));
    due.map_or_else(
        || ProbeResult {
            is_ok: true,
            reason: "serving".to_owned(),
        },
        |(seconds, tracked)| ProbeResult {
            is_ok: false,
            reason: format!(
                "not serving: {} {}",
                label_value(tracked.event.event_type.as_str()),
                start_text(seconds, tracked, now)
            ),
        },
    )
}

/// Negative infinity for a started event and for an approved one, `None` for one without a NotBefore.
fn seconds_until(tracked: &TrackedEvent, now: Moment) -> Option<f64> {
    match tracked.phase() {
        Phase::Started => Some(f64::NEG_INFINITY),
        Phase::Scheduled if tracked.is_due_by_approval() => Some(f64::NEG_INFINITY),
        Phase::Scheduled => Some(tracked.event.not_before?.seconds_from(now.wall)),
        Phase::Advisory | Phase::Ended => None,
    }
}

fn start_text(seconds: f64, tracked: &TrackedEvent, now: Moment) -> String {
    if tracked.phase() == Phase::Started {
        return "has started".to_owned();
    }
    if tracked.is_approved() {
        return "is approved and may start at any moment".to_owned();
    }
    if tracked.may_be_approved() {
        return "may be approved and start at any moment".to_owned();
    }
    if tracked.is_before_its_approval(now.wall) {
        return "is about to be approved".to_owned();
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
        web::fixtures::{at, due, freeze, snapshot_after},
    };

    const LEAD_TIME: Duration = Duration::from_mins(5);

    #[test]
    fn ready_after_the_first_successful_poll_despite_later_failures() {
        let mut snapshot = Snapshot::empty(None, at(0));
        assert!(!ready(&snapshot).is_ok);
        snapshot
            .health
            .fail(FailureReason::Timeout, "no answer".to_owned(), at(1).wall);
        assert_eq!(
            ready(&snapshot).reason,
            "not ready: no successful poll yet, last failure: timeout"
        );
        snapshot.health.succeed(at(2));
        assert!(ready(&snapshot).is_ok);
        snapshot
            .health
            .fail(FailureReason::Gone, "410".to_owned(), at(3).wall);
        assert!(ready(&snapshot).is_ok);
    }

    #[test]
    fn restored_state_alone_is_not_ready() {
        let mut snapshot = snapshot_after(&[(0, json!([]))]);
        snapshot.health.last_success = None;
        assert!(!ready(&snapshot).is_ok);
    }

    #[test]
    fn serving_fails_when_an_own_event_is_due_within_the_lead_time() {
        let snapshot = snapshot_after(&[(0, json!([freeze(&json!({}))]))]);
        let result = |seconds| serving(&snapshot, LEAD_TIME, at(seconds));
        assert_eq!(result(299).reason, "serving");
        assert_eq!(result(300).reason, "not serving: Freeze may start in 5m");
        assert_eq!(result(590).reason, "not serving: Freeze may start in 10s");
        assert_eq!(result(700).reason, "not serving: Freeze is due");
        assert!(!result(300).is_ok);
    }

    #[test]
    fn serving_fails_from_the_start_to_the_end_of_an_event() {
        let started = freeze(&json!({"EventStatus": "Started", "NotBefore": ""}));
        let mut documents = vec![(0, json!([started]))];
        assert_eq!(
            serving(&snapshot_after(&documents), LEAD_TIME, at(1)).reason,
            "not serving: Freeze has started"
        );
        documents.push((60, json!([])));
        assert!(serving(&snapshot_after(&documents), LEAD_TIME, at(61)).is_ok);
    }

    #[test]
    fn events_that_do_not_interrupt_this_vm_do_not_count() {
        for (why, members) in [
            (
                "another VM",
                json!({"Resources": ["web_2"], "NotBefore": due(10)}),
            ),
            (
                "no interruption",
                json!({"DurationInSeconds": 0, "NotBefore": due(10)}),
            ),
            ("no start time", json!({"NotBefore": ""})),
            (
                "advisory",
                json!({"EventStatus": "Advisory", "NotBefore": due(10)}),
            ),
            (
                "no resources",
                json!({"Resources": null, "NotBefore": due(10)}),
            ),
        ] {
            let snapshot = snapshot_after(&[(0, json!([freeze(&members)]))]);
            assert!(serving(&snapshot, LEAD_TIME, at(1)).is_ok, "{why}");
        }
        let unknown_length = freeze(&json!({"DurationInSeconds": -1, "NotBefore": due(10)}));
        let snapshot = snapshot_after(&[(0, json!([unknown_length]))]);
        assert!(!serving(&snapshot, LEAD_TIME, at(1)).is_ok);
    }

    #[test]
    fn serving_without_any_document() {
        assert!(serving(&Snapshot::empty(None, at(0)), LEAD_TIME, at(0)).is_ok);
    }

    #[test]
    fn known_event_counts_while_polling_fails() {
        let mut snapshot = snapshot_after(&[(0, json!([freeze(&json!({}))]))]);
        snapshot
            .health
            .fail(FailureReason::Connect, "refused".to_owned(), at(1).wall);
        assert!(!serving(&snapshot, LEAD_TIME, at(400)).is_ok);
    }

    #[test]
    fn reason_is_always_one_line() {
        let snapshot = snapshot_after(&[(0, json!([freeze(&json!({"EventType": "a\r\nb"}))]))]);
        let reason = serving(&snapshot, LEAD_TIME, at(590)).reason;
        assert_eq!(reason, "not serving: a  b may start in 10s");
    }
}
