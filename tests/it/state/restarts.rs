//! State across restarts of the exporter.

use std::{fs, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{engine::SavedState, time::Timestamp};
use serde_json::json;

use super::{FIRST_SEEN, Running, at, freeze, member, put_state, saved, saved_at, wait_for};
use crate::support::{
    DEADLINE, FakeImds, Reply,
    collector::{FakeCollector, Received, uid},
    events::{document, event},
    exporter::Metrics,
    process::{Process, exporter},
    wait_until,
};

#[tokio::test]
async fn a_second_exporter_with_the_same_directory_exits_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let first = Running::start(&imds, folder.path()).await;
    first.first_seen().await;
    let second = Process::start(Running::arguments(&imds, folder.path()))
        .end()
        .await;
    assert_eq!(second.code, Some(1), "{second:?}");
    let last = second.log.lines().last().unwrap();
    for part in [
        "error: --state.directory",
        "in use by another exporter",
        "its own directory",
    ] {
        assert!(last.contains(part), "{last}");
    }
    first.until("the first still polls", Metrics::is_up).await;
}

#[tokio::test]
async fn known_events_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let killed = Running::start(&imds, folder.path()).await;
    let first_seen = killed.first_seen().await;
    killed.process.signal("KILL");
    assert_eq!(killed.process.end().await.code, None);
    let mut again = Running::start(&imds, folder.path()).await;
    again.process.says("restored state").await;
    let metrics = again.until("it polls", Metrics::is_up).await;
    assert!(
        (metrics.value(FIRST_SEEN).unwrap() - first_seen).abs() < 1e-6,
        "{}",
        metrics.0
    );
    let observed = "azure_scheduled_events_observed_total{event_type=\"Freeze\",scope=\"self\"}";
    assert_eq!(metrics.value(observed), Some(0.0), "the event is not new");
}

/// A state written two minutes ago, in another boot, half a minute before `NotBefore`.
fn state_of_previous_boot() -> SavedState {
    let mut saved = saved_at(Timestamp::now().before(Duration::from_mins(2)), "Reboot");
    let due = saved.heartbeat_at.after(Duration::from_secs(30));
    Arc::make_mut(&mut saved.events[0]).shown.not_before = Some(due);
    saved
}

/// Name, ID and time of each log record of an exporter that starts after a boot with this state, until the event ends.
async fn log_records_after_a_boot(state: &SavedState) -> Vec<(String, String, u64)> {
    let folder = tempfile::tempdir().unwrap();
    put_state(folder.path(), state);
    let imds = FakeImds::standing(Reply::ok(r#"{"DocumentIncarnation":3,"Events":[]}"#)).await;
    let collector = FakeCollector::scripted([]).await;
    let mut command = exporter(&imds);
    command
        .arg(format!("--state.directory={}", folder.path().display()))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.base());
    let _exporter = Process::start_as(&mut command);
    wait_until(DEADLINE, "the log record of the end", || {
        let received = collector.received();
        let records = received.iter().flat_map(Received::log_records);
        let records: Vec<_> = records
            .map(|it| (it.event_name.clone(), uid(it), it.time_unix_nano))
            .collect();
        let is_ended = |(name, ..): &(String, _, _)| name == "azure.scheduled_event.ended";
        records.iter().any(is_ended).then_some(records)
    })
    .await
}

/// The state file is that from before the boot again: the exporter was killed before it could write another one.
#[tokio::test]
async fn log_records_of_a_boot_that_are_made_again_have_the_same_uids_and_other_times() {
    let state = state_of_previous_boot();
    let first = log_records_after_a_boot(&state).await;
    let again = log_records_after_a_boot(&state).await;
    let shown = |records: &[(String, String, u64)]| -> Vec<_> {
        let records = records.iter();
        records
            .map(|(name, uid, _)| (name.clone(), uid.clone()))
            .collect()
    };
    assert_eq!(shown(&first), shown(&again));
    let names: Vec<_> = first.iter().map(|(name, ..)| name.as_str()).collect();
    let expected = ["interrupted", "ended"].map(|name| format!("azure.scheduled_event.{name}"));
    assert_eq!(names, expected);
    assert_ne!(first[0].1, first[1].1);
    assert!(first.iter().zip(&again).all(|(one, other)| one.2 < other.2));
}

#[tokio::test]
async fn the_state_of_another_vm_is_set_aside_and_its_events_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    put_state(folder.path(), &saved("another-vm"));
    let imds = FakeImds::standing(Reply::ok(r#"{"DocumentIncarnation":1,"Events":[]}"#)).await;
    let mut exporter = Running::start(&imds, folder.path()).await;
    exporter.process.says("state belongs to another VM").await;
    let metrics = exporter.until("it polls", Metrics::is_up).await;
    assert!(metrics.value(FIRST_SEEN).is_none(), "{}", metrics.0);
    let metrics = exporter.until("polling succeeds", Metrics::is_up).await;
    assert!(
        !metrics.0.contains("azure_scheduled_event_info{"),
        "{}",
        metrics.0
    );
    let aside = wait_for(folder.path(), "state.json.foreign-").await;
    assert!(fs::read_to_string(aside).unwrap().contains("another-vm"));
}

#[tokio::test]
async fn the_heartbeat_in_the_state_file_continues_while_imds_does_not_respond() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    let exporter = Running::start(&imds, folder.path()).await;
    exporter.first_seen().await;
    imds.now(Reply::silence());
    let requested = imds.event_requests() + 1;
    imds.until_requests(requested).await;
    let mut document_at = None;
    for tick in 0..3 {
        let before = member(folder.path(), "heartbeat_at");
        let has_changed = || (member(folder.path(), "heartbeat_at") != before).then_some(());
        wait_until(DEADLINE, &format!("heartbeat {tick}"), has_changed).await;
        // The first heartbeat saves the last document too: polls that change nothing are not saved at once.
        let saved = member(folder.path(), "document_at");
        assert_eq!(document_at.get_or_insert(saved.clone()), &saved);
    }
    assert_eq!(imds.event_requests(), requested, "one request is in flight");
}

/// No poll is due when the event has only five minutes left.
#[tokio::test]
async fn the_heartbeat_is_faster_five_minutes_before_an_event_at_any_poll_interval() {
    let folder = tempfile::tempdir().unwrap();
    let in_five_minutes = Timestamp::now().after(Duration::from_secs(302)).rfc1123();
    let event = event(&json!({"NotBefore": in_five_minutes}));
    let imds = FakeImds::standing(document(1, [event])).await;
    let mut arguments = Running::arguments(&imds, folder.path());
    arguments.retain(|argument| !argument.starts_with("--imds.poll-interval"));
    arguments.push("--imds.poll-interval=1h".to_owned());
    let exporter = Running::of(Process::start(arguments)).await;
    let saved = || {
        let text = member(folder.path(), "heartbeat_at");
        serde_json::from_str::<Timestamp>(&text).unwrap()
    };
    let pending = "azure_scheduled_events_pending{event_type=\"Freeze\",scope=\"self\"}";
    exporter
        .until("the event is known", |it| it.value(pending) == Some(1.0))
        .await;
    let mut intervals = Vec::new();
    while intervals.len() < 3 {
        let before = saved();
        let next = || Some(saved()).filter(|saved| *saved != before);
        let next = wait_until(DEADLINE, "a heartbeat", next).await;
        intervals.push(next.as_unix_seconds() - before.as_unix_seconds());
    }
    assert!(intervals[1..].iter().all(|it| *it < 5.0), "{intervals:?}");
    assert_eq!(imds.event_requests(), 1);
}

#[tokio::test]
async fn an_identity_without_a_vm_id_keeps_the_state() {
    let folder = tempfile::tempdir().unwrap();
    put_state(folder.path(), &saved("a-vm"));
    let imds = FakeImds::standing(freeze("Scheduled")).await;
    imds.identity(Reply::ok(r#"{"name":"web_0"}"#));
    let mut exporter = Running::start(&imds, folder.path()).await;
    exporter.process.says("VM identity resolved").await;
    let first_seen = exporter.first_seen().await;
    assert!((first_seen - at().as_unix_seconds()).abs() < 1e-6);
    assert_eq!(member(folder.path(), "vm_id"), r#""a-vm""#);
}

#[tokio::test]
async fn after_discarding_a_foreign_state_the_whole_document_is_requested() {
    let folder = tempfile::tempdir().unwrap();
    put_state(folder.path(), &saved("another-vm"));
    let tagged = Reply::http(
        "200 OK",
        &[("ETag", "\"2\"")],
        r#"{"DocumentIncarnation":2,"Events":[]}"#,
    );
    let imds = FakeImds::standing(tagged).await;
    imds.identity(Reply::error("503 Service Unavailable", "not yet"));
    let mut exporter = Running::start(&imds, folder.path()).await;
    exporter.until("it polls", Metrics::is_up).await;
    imds.now(Reply::http("304 Not Modified", &[("ETag", "\"2\"")], ""));
    imds.identity(Reply::ok(r#"{"name":"web_0","vmId":"this-vm"}"#));
    exporter.process.says("state belongs to another VM").await;
    let requested = imds.event_requests();
    imds.until_requests(requested + 1).await;
    let requests = imds.requests();
    let polls: Vec<_> = requests
        .iter()
        .filter(|request| request.target.contains("/metadata/scheduledevents"))
        .collect();
    let last = polls.last().unwrap();
    assert_eq!(last.header("if-none-match"), None);
    assert!(polls[1].header("if-none-match").is_some());
}

#[tokio::test]
async fn a_late_identity_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let imds = FakeImds::standing(Reply::ok(r#"{"DocumentIncarnation":1,"Events":[]}"#)).await;
    imds.identity(Reply::error("503 Service Unavailable", "not yet"));
    let mut exporter = Running::start(&imds, folder.path()).await;
    exporter.until("it polls", Metrics::is_up).await;
    wait_for(folder.path(), "state.json").await;
    assert_eq!(member(folder.path(), "vm_name"), "null");
    imds.identity(Reply::ok(r#"{"name":"web_0","vmId":"this-vm"}"#));
    exporter.process.says("VM identity resolved").await;
    wait_until(DEADLINE, "the name is saved", || {
        (member(folder.path(), "vm_name") == r#""web_0""#).then_some(())
    })
    .await;
    assert_eq!(member(folder.path(), "vm_id"), r#""this-vm""#);
}
