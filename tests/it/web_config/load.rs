//! Many logins, many wrong passwords, many handshakes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::Instant};

use super::{Protected, TLS, basic, hash, user};
use crate::support::exporter::Metrics;

#[tokio::test]
async fn three_hundred_parallel_logins_of_ten_users_succeed() {
    let users: Vec<_> = (0..10)
        .map(|number| {
            format!(
                "  user{number}: {}\n",
                hash(8, &format!("password{number}"))
            )
        })
        .collect();
    let users = users.concat();
    let exporter = Protected::start(&format!("basic_auth_users:\n{users}")).await;
    let mut logins = JoinSet::new();
    for number in 0..300 {
        let client = exporter.plain();
        logins.spawn(async move {
            let (user, password) = (number % 10, (number + number / 150) % 10);
            let header = basic(&format!("user{user}"), &format!("password{password}"));
            let status = client.status("/metrics", &[&header]).await;
            (number, status)
        });
    }
    for (number, status) in logins.join_all().await {
        let expected = if number < 150 { 200 } else { 401 };
        assert_eq!(status, expected, "login {number}");
    }
}

/// A hash of this cost takes about as long as the interval between two polls.
const SLOW: u32 = 11;

/// The mean interval between twenty polls, during which `act` is repeated.
async fn poll_interval(exporter: &Protected, mut act: impl AsyncFnMut()) -> Duration {
    let began = Instant::now();
    let first = exporter.imds.event_requests();
    while exporter.imds.event_requests() < first + 20 {
        act().await;
    }
    let polls = exporter.imds.event_requests() - first;
    began.elapsed() / u32::try_from(polls).unwrap()
}

#[tokio::test]
async fn wrong_passwords_at_full_speed_delay_neither_polls_nor_the_scrapes_of_a_known_user() {
    let exporter = Protected::start(&user("bob", SLOW, "a")).await;
    let right = basic("bob", "a");
    assert_eq!(exporter.plain().status("/metrics", &[&right]).await, 200);
    let without = poll_interval(&exporter, async || {
        assert_eq!(exporter.plain().status("/metrics", &[&right]).await, 200);
    })
    .await;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let mut guessing = JoinSet::new();
    for guesser in 0..8 {
        let (client, stopped) = (exporter.plain(), Arc::clone(&is_stopped));
        guessing.spawn(async move {
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                let name = ["bob", "nobody"][number % 2];
                let wrong = basic(name, &format!("{guesser} {number}"));
                assert_eq!(client.status("/metrics", &[&wrong]).await, 401);
                number += 1;
            }
            number
        });
    }
    let mut slowest = Duration::ZERO;
    let with_guesses = poll_interval(&exporter, async || {
        let began = Instant::now();
        assert_eq!(exporter.plain().status("/metrics", &[&right]).await, 200);
        slowest = slowest.max(began.elapsed());
    })
    .await;
    is_stopped.store(true, Ordering::Relaxed);
    let guesses: usize = guessing.join_all().await.into_iter().sum();
    assert!(guesses > 8, "{guesses} guesses");
    // Without the thread, each poll waits for several hashes.
    let most = without * 2 + Duration::from_millis(100);
    assert!(
        with_guesses < most,
        "a poll every {with_guesses:?}, and {without:?} without guesses"
    );
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    let body = exporter
        .plain()
        .get("/metrics", &[&right])
        .await
        .unwrap()
        .body;
    let metrics = Metrics(body);
    let interruptions = metrics.value("azure_scheduled_events_observed_interruption_seconds_count");
    assert!(
        interruptions.is_none_or(|count| count < 1.0),
        "{interruptions:?}"
    );
}

#[tokio::test]
async fn an_unknown_user_takes_the_time_of_a_known_one() {
    let exporter = Protected::start(&user("bob", SLOW, "a")).await;
    let client = exporter.plain();
    let mut fastest = [Duration::MAX; 2];
    for number in 0..3 {
        for (name, fastest) in ["bob", "nobody"].iter().zip(&mut fastest) {
            let wrong = basic(name, &number.to_string());
            let began = Instant::now();
            assert_eq!(client.status("/metrics", &[&wrong]).await, 401);
            *fastest = (*fastest).min(began.elapsed());
        }
    }
    let [known, unknown] = fastest;
    assert!(
        unknown * 2 > known && known * 2 > unknown,
        "{known:?} and {unknown:?}"
    );
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
