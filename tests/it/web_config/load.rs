//! Many wrong passwords, many handshakes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};

use super::{Protected, STARTED, TLS, basic, client::Client, user};
use crate::support::{Reply, exporter::Metrics};

/// What is counted while a known user scrapes without a pause.
#[derive(Debug)]
struct Counts {
    polls: usize,
    scrapes: usize,
    guesses: usize,
    polls_per_second: f64,
}

/// For at least six seconds and `least` guesses.
async fn watch(exporter: &Protected, header: &str, guesses: &AtomicUsize, least: usize) -> Counts {
    let client = exporter.plain();
    let counted = || {
        let guesses = guesses.load(Ordering::Relaxed);
        (exporter.imds.event_requests(), guesses)
    };
    let (began, before) = (Instant::now(), counted());
    let mut scrapes = 0;
    while began.elapsed() < Duration::from_secs(6) || counted().1 - before.1 < least {
        assert_eq!(client.status("/metrics", &[header]).await, 200);
        scrapes += 1;
    }
    let after = counted();
    let polls = after.0 - before.0;
    Counts {
        polls,
        scrapes,
        guesses: after.1 - before.1,
        polls_per_second: f64::from(u32::try_from(polls).unwrap()) / began.elapsed().as_secs_f64(),
    }
}

/// A client that tries wrong passwords, each as soon as the one before it is refused; counts them.
async fn guess(client: Client, number: usize, guesses: Arc<AtomicUsize>) {
    for attempt in 0.. {
        let name = ["bob", "nobody"][attempt % 2];
        let wrong = basic(name, &format!("{number} {attempt}"));
        // On a slow machine, eight hashes take longer than the client or the server waits.
        if let Ok(response) = client.get("/metrics", &[&wrong]).await
            && response.status != 503
        {
            assert_eq!(response.status, 401);
            guesses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A hash takes several intervals between polls, so that the counts tell who waits for hashes. They are compared with
/// each other and with those without guesses: a busy machine changes all of them.
#[tokio::test]
async fn wrong_passwords_at_full_speed_delay_neither_polls_nor_the_scrapes_of_a_known_user() {
    let exporter = Protected::start(&user("bob", 14, "a")).await;
    // Interruptions are measured while an event of this VM is pending.
    exporter.imds.now(Reply::ok(STARTED));
    let right = basic("bob", "a");
    assert_eq!(exporter.plain().status("/metrics", &[&right]).await, 200);
    let guesses = Arc::new(AtomicUsize::new(0));
    let without = watch(&exporter, &right, &guesses, 0).await;
    let mut guessing = JoinSet::new();
    for number in 0..8 {
        guessing.spawn(guess(exporter.plain(), number, Arc::clone(&guesses)));
    }
    let with = watch(&exporter, &right, &guesses, 3).await;
    assert!(
        with.polls_per_second > without.polls_per_second * 0.75,
        "{with:?}, and {without:?} without guesses"
    );
    // If they waited, there would be one for each guess at most.
    assert!(
        with.polls > 2 * with.guesses && with.scrapes > 2 * with.guesses,
        "{with:?}"
    );
    let body = exporter.plain().get("/metrics", &[&right]).await;
    let body = body.unwrap().body;
    let pending = "azure_scheduled_events_pending{event_type=\"Freeze\",scope=\"self\"}";
    assert_eq!(Metrics(body.clone()).value(pending), Some(1.0));
    assert!(
        !body.contains("observed_interruption_seconds{")
            && !body.contains("observed_interruption_seconds_count{"),
        "{body}"
    );
    // The clients end here; one that was refused in another way has failed.
    guessing.abort_all();
    while let Some(ended) = guessing.join_next().await {
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }
}

/// Long enough to be measured.
const SLOW: u32 = 11;

#[tokio::test]
async fn an_unknown_user_takes_the_time_of_a_known_one() {
    let exporter = Protected::start(&user("bob", SLOW, "a")).await;
    let client = exporter.plain();
    let mut fastest = [Duration::MAX; 2];
    // A busy machine makes some of them slow, and none of them fast.
    for number in 0..12 {
        for (name, fastest) in ["bob", "nobody"].iter().zip(&mut fastest) {
            let wrong = basic(name, &number.to_string());
            let began = Instant::now();
            assert_eq!(client.status("/metrics", &[&wrong]).await, 401);
            *fastest = (*fastest).min(began.elapsed());
        }
        let [known, unknown] = fastest;
        if number >= 2 && unknown * 2 > known && known * 2 > unknown {
            return;
        }
    }
    panic!("a known and an unknown user: {fastest:?}");
}

/// The heap of the process does not grow with the number of handshakes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_after_two_hundred_handshakes_is_that_after_a_few() {
    let exporter = Protected::start(&format!("{TLS}{}", user("bob", 4, "a"))).await;
    let right = basic("bob", "a");
    let anonymous = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", exporter.process.pid()));
        let status = status.unwrap();
        let (_, rest) = status.split_once("RssAnon:").unwrap();
        rest.split_whitespace()
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let client = exporter.tls();
    for _ in 0..20 {
        assert_eq!(client.status("/metrics", &[&right]).await, 200);
    }
    let before = anonymous();
    for _ in 0..200 {
        assert_eq!(client.status("/metrics", &[&right]).await, 200);
    }
    let after = anonymous();
    assert!(after < before + 1_000, "{before} kB, then {after} kB");
}
