//! What is printed.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Exporter, FREEZE, FakeServer, REBOOT, Watch, document, reboot, scheduled, started};
use crate::{
    support::{
        DEADLINE, FakeImds, Pki, RefusingPort, Reply,
        process::{self, Process, page},
        wait_until,
    },
    web_config::{TLS, user},
};

/// The event of a line, and that of the exporter, without what changes with time.
fn without_countdown(mut event: Value) -> Value {
    let members = event.as_object_mut().unwrap();
    members.remove("not_before_countdown_seconds").unwrap();
    event
}

#[tokio::test]
async fn what_a_document_ends_is_printed_before_what_it_announces() {
    // In the order of the ids it is the other way round.
    let (first, second) = ("F0000000-0000-4000-8000-000000000000", "1");
    let event = |id: &str| reboot(&json!({"EventId": id}));
    let exporter = Exporter::start([event(first)]).await;
    let watch = exporter.watch(&[]);
    watch.prints_of(&[("pending", first)]).await;
    exporter.now([event(second)]);
    watch
        .prints_of(&[("pending", first), ("ended", first), ("announced", second)])
        .await;
    let lines = watch.lines();
    assert_eq!(lines[1]["event"]["other_open_types"], json!(["Reboot"]));
    assert_eq!(lines[2]["event"]["other_open_types"], json!([]));
}

/// An escape has six bytes, and events that are only mentioned are pending beside the others.
#[tokio::test]
async fn names_of_control_characters_do_not_keep_watch_from_an_eviction() {
    let event = |id: &str, names: usize| {
        let names = (1..names).map(|number| format!("{}{number}", "\u{7f}".repeat(120)).into());
        let names: Vec<Value> = [json!("web_0")].into_iter().chain(names).collect();
        reboot(&json!({"EventId": id, "Resources": names}))
    };
    let exporter = Exporter::start(["A", "B", "C"].map(|id| event(id, 9_900))).await;
    let second = [
        event("D", 9_900),
        event("E", 5_000),
        json!({"Id": "A"}),
        json!({"Id": "B"}),
        json!({"Id": "C"}),
    ];
    exporter.now(second.clone());
    wait_until(DEADLINE, "the second document is read", || {
        exporter.process.log().contains("event_id=E").then_some(())
    })
    .await;
    let watch = exporter.watch(&[]);
    let watch = &watch;
    let printed = |expected: &'static str| {
        let is_printed = move || watch.lines().iter().any(|it| it["transition"] == expected);
        wait_until(DEADLINE, expected, move || is_printed().then_some(()))
    };
    printed("pending").await;
    let eviction = reboot(&json!({"EventType": "Preempt"}));
    exporter.now([&second[..], &[eviction]].concat());
    printed("announced").await;
}

/// Each would list the types of all others.
#[tokio::test]
async fn thousands_of_undocumented_types_do_not_multiply() {
    let events = (0..2_000).map(|number| {
        reboot(&json!({"EventId": number.to_string(), "EventType": format!("Type{number}")}))
    });
    let exporter = Exporter::start(events.chain([scheduled()])).await;
    let events = page(&exporter.address, "/api/v1/events").await.unwrap();
    assert!(events.len() < 2_000 * 3_000, "{}", events.len());
    let events: Value = serde_json::from_str(&events).unwrap();
    let types = &events["events"][0]["other_open_types"];
    assert!(
        types.as_array().unwrap().contains(&json!("Reboot")),
        "{types}"
    );
}

#[tokio::test]
async fn no_member_of_an_event_hides_the_others() {
    let nested = format!("{}{}", "[".repeat(125), "]".repeat(125));
    let nested: Value = serde_json::from_str(&nested).unwrap();
    let odd = json!({
        "EventId": FREEZE, "Nested": nested, "Layout": {"a": [1]}, "known_start": 7, "number": "x", "is_open": [],
        "phase": 1, "restored": {}, "lines": null,
    });
    let exporter = Exporter::start([reboot(&odd)]).await;
    let watch = exporter.watch(&[]);
    watch.prints_of(&[("pending", FREEZE)]).await;
    exporter.now([reboot(&odd), scheduled()]);
    let both = [("pending", FREEZE), ("announced", REBOOT)];
    watch.prints_of(&both).await;
    exporter.now([scheduled()]);
    watch
        .prints_of(&[&both[..], &[("ended", FREEZE)]].concat())
        .await;
}

#[tokio::test]
async fn each_transition_is_one_line_with_the_event_of_the_api() {
    let exporter = Exporter::start([]).await;
    let folder = TempDir::new().unwrap();
    let watch = exporter.watching(&folder).await;
    exporter.now([scheduled()]);
    watch.prints(&["announced"]).await;
    let page = page(&exporter.address, "/api/v1/events").await;
    let known: Value = serde_json::from_str(&page.unwrap()).unwrap();
    let event = known["events"][0].clone();
    let line = watch.lines().remove(0);
    assert_eq!(line["at"], event["first_seen_at"]);
    assert_eq!(line.as_object().unwrap().len(), 3, "{line}");
    assert_eq!(
        without_countdown(line["event"].clone()),
        without_countdown(event)
    );

    let moved = "Fri, 31 Dec 2999 23:00:00 GMT";
    exporter.now([reboot(&json!({"NotBefore": moved}))]);
    watch.prints(&["announced", "rescheduled"]).await;
    let described = json!({"NotBefore": moved, "Description": "other"});
    exporter.now([reboot(&described)]);
    watch.prints(&["announced", "rescheduled", "changed"]).await;
    let running = json!({"EventStatus": "Started", "NotBefore": "", "Description": "other"});
    exporter.now([reboot(&running)]);
    let until_start = ["announced", "rescheduled", "changed", "started"];
    watch.prints(&until_start).await;
    exporter.now([]);
    watch.prints(&[&until_start[..], &["ended"]].concat()).await;
    let lines = watch.lines();
    let change = &lines[1]["event"]["reschedulings"][0]["at"];
    assert_eq!(&lines[1]["at"], change);
    assert_eq!(lines[3]["at"], lines[3]["event"]["started_at"]);
    assert_eq!(lines[4]["at"], lines[4]["event"]["ended_at"]);
    assert_eq!(lines[4]["event"]["outcome"], "completed");
    // The exporter still shows the ended event: nothing is printed again.
    exporter.now([reboot(&json!({"EventId": FREEZE}))]);
    let mut expected: Vec<_> = until_start.iter().map(|name| (*name, REBOOT)).collect();
    expected.extend([("ended", REBOOT), ("announced", FREEZE)]);
    watch.prints_of(&expected).await;
}

#[tokio::test]
async fn open_events_are_pending_at_the_start_and_ended_ones_are_not_printed() {
    let mut exporter = Exporter::start([started()]).await;
    let advisory = json!({"EventId": "A", "EventStatus": "Advisory", "EventType": "SpotRebalanceRecommendation"});
    exporter.now([
        reboot(&json!({"EventId": FREEZE, "EventType": "Freeze"})),
        reboot(&advisory),
    ]);
    exporter.observes("ended").await;
    let watch = exporter.watch(&[]);
    let open = [("advisory", "A"), ("pending", FREEZE)];
    watch.prints_of(&open).await;
    exporter.now([reboot(&advisory)]);
    watch
        .prints_of(&[&open[..], &[("ended", FREEZE)]].concat())
        .await;
    let lines = watch.lines();
    assert_eq!(lines[2]["event"]["outcome"], "cancelled");
}

#[tokio::test]
async fn events_of_other_vms_are_printed_on_request_only() {
    let other = || reboot(&json!({"EventId": FREEZE, "Resources": ["web_1"]}));
    let exporter = Exporter::start([other()]).await;
    let folder = TempDir::new().unwrap();
    let own = exporter.watching(&folder).await;
    let all = exporter.watch(&["--all"]);
    all.prints_of(&[("pending", FREEZE)]).await;
    let moved = |resource: &str| {
        let not_before = "Fri, 31 Dec 2999 23:00:00 GMT";
        reboot(&json!({"NotBefore": not_before, "Resources": [resource]}))
    };
    let (mut of_own, mut of_all) = (Vec::new(), vec![("pending", FREEZE)]);
    for (event, own_line, line) in [
        (scheduled(), "announced", "announced"),
        (moved("web_0"), "rescheduled", "rescheduled"),
        // The last line about an event that no longer names this VM, unless it comes back.
        (moved("web_2"), "changed", "changed"),
        (moved("web_0"), "announced", "changed"),
        (moved("web_2"), "changed", "changed"),
    ] {
        exporter.now([event, other()]);
        of_own.push(own_line);
        of_all.push((line, REBOOT));
        own.prints(&of_own).await;
        all.prints_of(&of_all).await;
    }
    assert_eq!(own.lines()[2]["event"]["scope"], "other");
    exporter.now([other()]);
    of_all.push(("ended", REBOOT));
    all.prints_of(&of_all).await;
    // The next line is that of another event: no end was printed.
    exporter.now([other(), reboot(&json!({"EventId": "NEW"}))]);
    let mut of_own: Vec<_> = of_own.iter().map(|name| (*name, REBOOT)).collect();
    of_own.push(("announced", "NEW"));
    own.prints_of(&of_own).await;
    assert_eq!(own.logged("level=warn"), 0, "{}", own.process.log());
}

#[tokio::test]
async fn an_exporter_with_tls_and_a_password_is_read() {
    let pki = Pki::new();
    pki.write_certificate("server", &["127.0.0.2"]);
    pki.write("web.yml", &(TLS.to_owned() + &user("script", 4, "secret")));
    pki.write("user", "script:secret\n");
    pki.write("wrong", "script:other");
    let config = format!("--web.config.file={}", pki.path("web.yml"));
    let exporter = Exporter::start_with([scheduled()], &[&config]).await;
    let flag = |name: &str, file: &str| format!("--{name}={}", pki.path(file));
    let url = format!("--url=https://{}", exporter.address);
    let (ca, user, wrong) = (
        flag("ca-file", "ca.pem"),
        flag("user-file", "user"),
        flag("user-file", "wrong"),
    );
    Watch::start(&[&url, &ca, &user]).prints(&["pending"]).await;
    let own_ca = flag("ca-file", "server.pem");
    for (flags, words) in [
        (&[&url, &ca, &wrong][..], "HTTP 401"),
        (&[&url, &ca], "(--user-file names"),
        (&[&url, &own_ca, &user], "--ca-file"),
    ] {
        let flags: Vec<&str> = flags.iter().map(|flag| flag.as_str()).collect();
        let mut watch = Watch::start(&flags);
        let line = watch.process.says("cannot be read").await;
        assert!(line.contains(words), "{flags:?}: {line}");
        assert!(!line.contains("secret"), "{line}");
        watch.terminate().await;
    }
}

/// What any other server may answer.
#[tokio::test]
async fn a_response_of_another_server_is_a_warning_and_nothing_known_is_lost() {
    let exporter = Exporter::start([scheduled()]).await;
    let known = page(&exporter.address, "/api/v1/transitions").await;
    let mut known: Value = serde_json::from_str(&known.unwrap()).unwrap();
    // As it answers about the last number.
    known["after_at"] = known["newest_at"].clone();
    let known = known.to_string();
    let server = FakeServer::start().await;
    server.now(&known);
    let watch = Watch::start(&[&format!("--url=http://{}", server.address)]);
    watch.prints(&["pending"]).await;
    let long = format!("{{\"now\":\"{}\"}}", "x".repeat(100_000));
    let half: String = known.chars().take(known.len() / 2).collect();
    for body in ["<html>", "{}", "[]", "", &long, &half] {
        let warnings = watch.logged("cannot be read");
        server.now(body);
        wait_until(DEADLINE, "a warning", || {
            (watch.logged("cannot be read") > warnings).then_some(())
        })
        .await;
        server.now(&known);
        wait_until(DEADLINE, "an answer", || {
            (watch.logged("is read again") > warnings).then_some(())
        })
        .await;
    }
    assert!(watch.process.log().len() < 10_000);
    watch.prints(&["pending"]).await;
    // The page of the exporter about an unknown path is not repeated.
    let mut watch = Watch::start(&[&format!("{}/api", exporter.url())]);
    let line = watch.process.says("cannot be read").await;
    let expected = "HTTP 404 Not Found (--url is the base URL of the exporter)\"";
    assert!(line.ends_with(expected), "{line}");
    assert!(
        line.contains(&format!("url=http://{}/api/api", exporter.address)),
        "{line}"
    );
}

#[tokio::test]
async fn what_an_exporter_without_its_state_announces_again_is_printed_again_with_a_warning() {
    let exporter = Exporter::start([scheduled()]).await;
    let mut watch = exporter.watch(&[]);
    watch.prints(&["pending"]).await;
    let exporter = exporter.restart(&mut watch, &[], [started()]).await;
    watch.prints(&["pending", "announced", "started"]).await;
    watch.process.says("lines may be repeated").await;
    exporter.now([]);
    let lines = ["pending", "announced", "started", "ended"];
    watch.prints(&lines).await;
    assert_eq!(watch.logged("level=warn"), 2, "{}", watch.process.log());
}

#[tokio::test]
async fn an_exporter_that_starts_later_is_waited_for() {
    let imds = FakeImds::standing(Reply::ok("")).await;
    let refusing = RefusingPort::reserve();
    let address = refusing.base().trim_start_matches("http://").to_owned();
    let mut watch = Watch::start(&[&format!("--url={}", refusing.base())]);
    watch.process.says("cannot be read").await;
    drop(refusing);
    let listen = format!("--web.listen-address={address}");
    let _exporter = Process::start_as(process::exporter(&imds).arg(listen));
    watch.process.says("is read again").await;
    // It has no document yet: nothing is known, and so nothing has begun.
    imds.now(document([scheduled()]));
    watch.prints(&["pending"]).await;
    assert_eq!(watch.logged("level=warn"), 1, "{}", watch.process.log());
}
