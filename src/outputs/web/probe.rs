//! Results of the probes `/-/ready` and `/-/serving`.

use std::time::Duration;

use crate::{
    base::time::Moment,
    core::{assessment::judge, snapshot::Snapshot},
};

/// 200 or 503, with the line of the body.
pub(super) type ProbeResult = Result<&'static str, String>;

/// Ready after the first successful poll of this process. Later failures change nothing, as known events are kept.
pub(super) fn ready(snapshot: &Snapshot) -> ProbeResult {
    match &snapshot.poll.failure {
        _ if snapshot.poll.last_success.is_some() => Ok("ready"),
        None => Err("not ready: no response from IMDS yet".to_owned()),
        Some(failure) => Err(format!(
            "not ready: no successful poll yet, last failure: {}",
            failure.error.reason.as_str()
        )),
    }
}

/// Fails while an event that interrupts this VM has started, is due within `lead_time`, or may start at any moment.
///
/// Succeeds while no event is known: an exporter that starts, or that cannot reach IMDS, must not take its VM out of the
/// load balancer, as all VMs could be affected at once.
pub(super) fn serving(snapshot: &Snapshot, lead_time: Duration, now: Moment) -> ProbeResult {
    let judgements = snapshot.pending().map(|tracked| judge(tracked, now));
    let due = judgements
        .filter(|it| it.interrupts_vm() && it.is_due(lead_time))
        .max_by(|one, other| one.priority().total_cmp(&other.priority()));
    let Some(due) = due else {
        return Ok("serving");
    };
    Err(format!("not serving: {}", due.words(snapshot).summary))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        azure::{FailureReason, RequestError},
        outputs::web::fixtures::{LEAD_TIME, at, due, freeze, snapshot_after},
    };

    #[test]
    fn ready_after_the_first_successful_poll_despite_later_failures() {
        let mut snapshot = Snapshot::empty(None, at(0));
        assert!(ready(&snapshot).is_err() && serving(&snapshot, LEAD_TIME, at(0)).is_ok());
        let timeout = RequestError::new(FailureReason::Timeout, "no answer");
        snapshot.poll.fail(timeout, at(1));
        assert_eq!(
            ready(&snapshot).unwrap_err(),
            "not ready: no successful poll yet, last failure: timeout"
        );
        snapshot.poll.succeed(at(2));
        assert!(ready(&snapshot).is_ok());
        let gone = RequestError::new(FailureReason::Gone, "410");
        snapshot.poll.fail(gone, at(3));
        assert!(ready(&snapshot).is_ok());
    }

    #[test]
    fn serving_fails_when_an_own_event_is_due_within_the_lead_time() {
        let mut snapshot = snapshot_after(&[(0, json!([freeze(&json!({}))]))]);
        // A known event counts while polls fail, and before the first success after a restart.
        let refused = RequestError::new(FailureReason::Connect, "refused");
        snapshot.poll.fail(refused, at(1));
        snapshot.poll.last_success = None;
        assert!(ready(&snapshot).is_err());
        let result = |seconds| serving(&snapshot, LEAD_TIME, at(seconds));
        assert_eq!(result(299), Ok("serving"));
        let due = "not serving: Freeze of web_1 at 09:10 UTC";
        assert_eq!(result(300).unwrap_err(), due);
        assert_eq!(result(700).unwrap_err(), due);
    }

    #[test]
    fn events_that_do_not_interrupt_this_vm_do_not_count() {
        for (member, value) in [
            ("Resources", json!(["web_2"])),
            ("DurationInSeconds", json!(0)),
            ("EventStatus", json!("Advisory")),
            ("Resources", json!(null)),
        ] {
            let why = format!("{member} {value}");
            let event = freeze(&json!({"NotBefore": due(10), member: value}));
            let snapshot = snapshot_after(&[(0, json!([event]))]);
            assert!(serving(&snapshot, LEAD_TIME, at(1)).is_ok(), "{why}");
        }
        let no_start_time = freeze(&json!({"NotBefore": "soon"}));
        let snapshot = snapshot_after(&[(0, json!([no_start_time]))]);
        assert_eq!(
            serving(&snapshot, LEAD_TIME, at(1)).unwrap_err(),
            "not serving: Freeze of web_1 at any moment"
        );
        let unknown_length = freeze(&json!({"DurationInSeconds": -1, "NotBefore": due(10)}));
        let snapshot = snapshot_after(&[(0, json!([unknown_length]))]);
        assert!(serving(&snapshot, LEAD_TIME, at(1)).is_err());
    }

    #[test]
    fn reason_is_always_one_line() {
        let snapshot = snapshot_after(&[(0, json!([freeze(&json!({"EventType": "a\r\nb"}))]))]);
        let reason = serving(&snapshot, LEAD_TIME, at(590)).unwrap_err();
        assert_eq!(reason, "not serving: a  b of web_1 at 09:10 UTC");
    }
}
