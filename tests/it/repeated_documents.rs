//! A response with the bytes of the last document is not parsed again: it has the effects that parsing it would have.

use std::{fmt::Write as _, time::Duration};

use azure_scheduled_events_exporter::{
    FailureReason, Identity, RequestError,
    approval::ApprovalPolicy,
    document::{self, Answer},
    engine::{Effect, Engine, EngineConfig, Input},
    time::{Clock, Moment, Timestamp},
};
use proptest::prelude::*;

use crate::support::{DEADLINE, FakeImds, Reply, client_of};

const ONE: &str =
    r#"{"DocumentIncarnation":1,"Events":[{"EventId":"A","EventStatus":"Scheduled"}]}"#;
const TWO: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"A","EventStatus":"Started"}]}"#;

#[tokio::test]
async fn only_the_bytes_of_the_last_document_are_the_same() {
    let imds = FakeImds::standing(Reply::ok(ONE)).await;
    let mut client = client_of(&imds.base());
    let mut poll = async |reply| {
        imds.now(reply);
        client.poll(DEADLINE, Clock::start()).await
    };
    let is_document = |answer| matches!(answer, Ok(Answer::Document { .. }));
    assert!(is_document(poll(Reply::ok(ONE)).await));
    assert_eq!(poll(Reply::ok(ONE)).await, Ok(Answer::Unchanged));
    assert!(is_document(poll(Reply::ok(TWO)).await));
    assert!(
        is_document(poll(Reply::ok(ONE)).await),
        "it has changed back"
    );
    assert!(
        poll(Reply::error("503 Service Unavailable", ""))
            .await
            .is_err()
    );
    assert!(poll(Reply::ok("{}")).await.is_err());
    assert_eq!(
        poll(Reply::ok(ONE)).await,
        Ok(Answer::Unchanged),
        "a failure changes nothing that is known"
    );
    let tagged = poll(Reply::http("200 OK", &[("ETag", "\"7\"")], ONE)).await;
    assert_eq!(tagged, Ok(Answer::Unchanged));
    let confirmed = poll(Reply::http("304 Not Modified", &[], "")).await;
    assert_eq!(confirmed, Ok(Answer::Unchanged), "by the new tag");
}

/// The entry of one event; each member may be missing or unreadable.
fn entry(id: usize) -> impl Strategy<Value = String> {
    let member = |name: &'static str, values: &'static [&'static str]| {
        let value = prop::option::weighted(0.8, prop::sample::select(values));
        value.prop_map(move |value| value.map(|value| format!(r#","{name}":{value}"#)))
    };
    let members = (
        member(
            "EventStatus",
            &[r#""Scheduled""#, r#""Started""#, r#""Advisory""#, "7"],
        ),
        member(
            "EventType",
            &[
                r#""Freeze""#,
                r#""Reboot""#,
                r#""Preempt""#,
                r#""SpotRebalanceRecommendation""#,
            ],
        ),
        member(
            "Resources",
            &[r#"["web_0"]"#, r#"["web_1","WEB_0"]"#, r#"["web_1"]"#, "3"],
        ),
        member("EventSource", &[r#""User""#, r#""Platform""#]),
        member(
            "NotBefore",
            &[
                r#""""#,
                r#""Tue, 17 Nov 2026 09:01:00 GMT""#,
                r#""Tue, 17 Nov 2026 09:15:42 GMT""#,
            ],
        ),
        member("DurationInSeconds", &["9", "-1"]),
        prop::bool::weighted(0.1),
    );
    members.prop_map(
        move |(status, kind, resources, source, due, length, is_unreadable)| {
            let members: String = [status, kind, resources, source, due, length]
                .into_iter()
                .flatten()
                .collect();
            let id = if is_unreadable {
                "7".to_owned()
            } else {
                format!(r#""E2C6D8F{id}-0A97-4B35-8D14-6F52C3B09A7E""#)
            };
            format!(r#"{{"EventId":{id}{members}}}"#)
        },
    )
}

fn body() -> impl Strategy<Value = String> {
    let entries = (0..3_usize).map(|id| prop::option::weighted(0.6, entry(id)));
    let incarnation = prop::option::of(0_i64..3);
    (incarnation, entries.collect::<Vec<_>>()).prop_map(|(incarnation, entries)| {
        let incarnation = incarnation.map_or("null".to_owned(), |number| number.to_string());
        let entries: Vec<_> = entries.into_iter().flatten().collect();
        format!(
            r#"{{"DocumentIncarnation":{incarnation},"Events":[{}]}}"#,
            entries.join(",")
        )
    })
}

#[derive(Debug, Clone)]
enum Step {
    Document(String),
    /// The last document again.
    Again,
    Fail,
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => body().prop_map(Step::Document),
        6 => Just(Step::Again),
        1 => Just(Step::Fail),
        1 => Just(Step::Tick),
    ]
}

fn start() -> Moment {
    Moment {
        wall: Timestamp::from_unix_seconds(1_794_906_000).unwrap(),
        monotonic: Duration::from_secs(5),
    }
}

fn parsed(body: &str) -> Answer {
    let (document, anomalies) = document::parse(body.as_bytes()).unwrap();
    Answer::Document {
        document,
        anomalies,
    }
}

fn polled(result: Result<Answer, RequestError>) -> Input {
    let took = Duration::ZERO;
    Input::Polled { result, took }
}

/// The effects as text, and what the inputs that answer them cause.
fn handle(engine: &mut Engine, input: Input, now: Moment) -> String {
    let mut shown = String::new();
    for effect in engine.handle(input, now) {
        writeln!(shown, "{effect:?}").unwrap();
        let answer = match effect {
            Effect::SaveState(_) => Input::StateWritten(Ok(())),
            Effect::Approve(id) => Input::ApprovalSent {
                id,
                result: Ok(()),
                took: Duration::ZERO,
            },
            _ => continue,
        };
        shown += &handle(engine, answer, now);
    }
    shown
}

/// Two engines that know the identity of this VM.
fn engines() -> [Engine; 2] {
    [(); 2].map(|()| {
        let config = EngineConfig {
            poll_interval: Duration::from_secs(1),
            approvals: ApprovalPolicy {
                user_events: true,
                delay: Duration::from_secs(2),
                ..ApprovalPolicy::default()
            },
            is_persistent: true,
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(config, None, start());
        let result = Ok(Identity {
            name: "web_0".to_owned(),
            ..Identity::default()
        });
        let took = Duration::ZERO;
        engine.handle(Input::Identified { result, took }, start());
        engine.handle(Input::StateWritten(Ok(())), start());
        engine
    })
}

fn failure() -> RequestError {
    RequestError {
        reason: FailureReason::Timeout,
        message: String::new(),
        retry_after: None,
        status: None,
        is_unsent: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_document_again_has_the_effects_of_parsing_it(
        first in body(),
        steps in prop::collection::vec((prop_oneof![0_u64..3, 0_u64..700], step()), 1..40),
    ) {
        let [mut parses, mut skips] = engines();
        let mut now = start();
        let mut last = first.clone();
        for (seconds, step) in [(0, Step::Document(first))].into_iter().chain(steps) {
            now = now.after(Duration::from_secs(seconds));
            let [parse, skip] = match step {
                Step::Document(body) => {
                    last = body;
                    [polled(Ok(parsed(&last))), polled(Ok(parsed(&last)))]
                }
                Step::Again => [polled(Ok(parsed(&last))), polled(Ok(Answer::Unchanged))],
                Step::Fail => [polled(Err(failure())), polled(Err(failure()))],
                Step::Tick => [Input::Tick, Input::Tick],
            };
            let parsed = handle(&mut parses, parse, now);
            prop_assert_eq!(parsed, handle(&mut skips, skip, now), "after {}", last);
        }
    }
}
