//! Sends the requests to IMDS, one at a time, each when it is due. The event loop runs between and during requests.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{event_loop::EventLoop, publisher::DISK_TIMEOUT};
use crate::{
    azure::{
        event::EventId,
        imds::{Client, backoff, timeouts::PollTimeouts},
    },
    base::time::Moment,
    core::{approval::REQUEST_TIMEOUT, engine::Input},
    program::config::ImdsSettings,
};

/// Limit for the disk at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct Poller {
    pub(super) client: Client,
    pub(super) imds: ImdsSettings,
    pub(super) interval: Duration,
    pub(super) event_loop: EventLoop,
    pub(super) timeouts: PollTimeouts,
    pub(super) consecutive_failures: u32,
    pub(super) identity_unavailable: u32,
}

impl Poller {
    /// Runs until it is cancelled, then saves the state.
    pub(super) async fn run(&mut self, stopping: &CancellationToken) {
        let mut identity_due = Duration::ZERO;
        while !stopping.is_cancelled() {
            let now = self.event_loop.clock.now().monotonic;
            if self.event_loop.engine.needs_identity() && now >= identity_due {
                let Some(delay) = self.identify(stopping).await else {
                    break;
                };
                identity_due = self.event_loop.clock.now().monotonic.saturating_add(delay);
            }
            let Some(delay) = self.poll(stopping).await else {
                break;
            };
            let pause = stopping.run_until_cancelled(sleep(delay));
            self.event_loop.run_while(pause).await;
        }
        self.event_loop.apply(Input::Shutdown);
        self.event_loop.flush(SHUTDOWN_TIMEOUT).await;
        self.event_loop.publisher.state_is_late();
    }

    /// Requests the identity of this VM. Returns the delay before the next attempt; `None` when cancelled.
    async fn identify(&mut self, stopping: &CancellationToken) -> Option<Duration> {
        let clock = self.event_loop.clock;
        let began = clock.now();
        let request = stopping.run_until_cancelled(self.client.identify(clock));
        let result = self.event_loop.run_while(request).await?;
        let took = elapsed(began, clock.now());
        let error = result.as_ref().err().cloned();
        self.event_loop.apply(Input::Identified { result, took });
        let Some(error) = error else {
            return Some(Duration::ZERO);
        };
        let is_name_configured = self.imds.vm_name.is_some();
        if error.is_identity_unavailable(is_name_configured) {
            self.identity_unavailable = self.identity_unavailable.saturating_add(1);
        } else {
            self.identity_unavailable = 0;
        }
        let timing = self.imds.identity_timing;
        Some(backoff::identity_retry_delay(
            &error,
            self.identity_unavailable,
            timing,
        ))
    }

    /// Requests the events, and sends at most one approval. Returns the delay before the next poll; `None` when
    /// cancelled.
    async fn poll(&mut self, stopping: &CancellationToken) -> Option<Duration> {
        if std::mem::take(&mut self.event_loop.needs_whole_document) {
            self.client.forget_document();
        }
        let clock = self.event_loop.clock;
        let began = clock.now();
        let is_long = self.timeouts.is_long(began.monotonic);
        let timeout = if is_long {
            self.imds.first_timeout
        } else {
            self.imds.timeout
        };
        let request = stopping.run_until_cancelled(self.client.poll(timeout, clock));
        let result = self.event_loop.run_while(request).await?;
        let took = elapsed(began, clock.now());
        let error = result.as_ref().err().cloned();
        let reason = error.as_ref().map(|error| error.reason);
        let ended = began.monotonic.saturating_add(took);
        self.timeouts.record(is_long, reason, ended);
        self.consecutive_failures = match error {
            Some(_) => self.consecutive_failures.saturating_add(1),
            None => 0,
        };
        self.event_loop.apply(Input::Polled { result, took });
        if let Some(id) = self.event_loop.approval.take() {
            self.approve(id).await;
        }
        let busy = elapsed(began, clock.now());
        let failed = error.as_ref().map(|it| (it, self.consecutive_failures));
        let delay = backoff::next_delay(failed, busy, self.interval, fastrand::f64());
        let approval_due = match error {
            None => self.event_loop.engine.approval_due_in(clock.now()),
            Some(_) => None,
        };
        let earliest = |due: Duration| due.max(backoff::MIN_REQUEST_INTERVAL);
        Some(approval_due.map_or(delay, |due| delay.min(earliest(due))))
    }

    /// Sends an approval once the state that records it is on disk. It is not cancelled: the end of the process waits
    /// for the answer.
    async fn approve(&mut self, id: EventId) {
        self.event_loop.flush(DISK_TIMEOUT).await;
        let clock = self.event_loop.clock;
        let began = clock.now();
        let timeout = self.imds.timeout.min(REQUEST_TIMEOUT);
        let ids = [&id];
        let request = self.client.approve(&ids, timeout, clock);
        let result = self.event_loop.run_while(request).await;
        let took = elapsed(began, clock.now());
        self.event_loop
            .apply(Input::ApprovalSent { id, result, took });
    }
}

fn elapsed(began: Moment, now: Moment) -> Duration {
    now.monotonic.saturating_sub(began.monotonic)
}
