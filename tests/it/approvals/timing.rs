//! How long a requested restart waits with and without approvals: printed with `--nocapture`, because a test on a busy
//! machine cannot assert a time.

use std::time::Duration;

use azure_scheduled_events_exporter::time::Clock;

use super::{azure::Azure, user_events};
use crate::support::exporter::{Exporter, settings};

/// `--imds.poll-interval` of the exporter.
const INTERVAL: Duration = Duration::from_secs(1);
const ROUNDS: u64 = 8;

#[tokio::test]
async fn with_approvals_a_restart_starts_within_about_one_poll() {
    let azure = Azure::playing(&[], 1.0);
    let mut settings = settings(&azure.base());
    settings.interval = INTERVAL;
    settings.approvals = user_events();
    let exporter = Exporter::start(settings);
    azure.until_gets(2).await;
    let clock = Clock::start();
    let mut waits = Vec::new();
    for round in 0..ROUNDS {
        // Each round requests the restart at a different offset within the poll interval.
        tokio::time::sleep(INTERVAL.mul_f64(round as f64 / ROUNDS as f64)).await;
        let requested_at = clock.now().monotonic;
        azure.request_restart(&["web_0"]).await;
        azure.until_started().await;
        waits.push(clock.now().monotonic.saturating_sub(requested_at));
        azure.clear().await;
    }
    assert_eq!(azure.posts(), waits.len());
    waits.sort();
    println!("from request to start with a poll a second, sorted: {waits:?}");
    exporter.stop().await;
}

#[tokio::test]
async fn without_approvals_a_restart_waits_for_not_before() {
    const SPEED: f64 = 300.0;
    let azure = Azure::playing(&[], SPEED);
    let exporter = Exporter::start(settings(&azure.base()));
    azure.until_gets(2).await;
    let clock = Clock::start();
    let requested_at = clock.now().monotonic;
    azure.request_restart(&["web_0"]).await;
    azure.until_started().await;
    let waited = clock
        .now()
        .monotonic
        .saturating_sub(requested_at)
        .mul_f64(SPEED);
    println!("from request to start without approvals, at the speed of real time: {waited:?}");
    assert!(waited >= Duration::from_mins(15), "{waited:?}");
    assert_eq!(azure.posts(), 0);
    exporter.stop().await;
}
