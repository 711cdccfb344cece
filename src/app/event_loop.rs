//! The event loop: waits for the next input, gives it to the engine, performs the effects in their order.
//!
//! It sends IMDS one request at a time, and ticks the heartbeat between and during requests. It never waits for a
//! receiver, and waits for the disk only before an approval. A snapshot is published after its state is on disk, or
//! after [`DISK_TIMEOUT`].

use std::{
    future::{Future, pending},
    pin::pin,
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{
    export_queue::ExportQueue,
    logging,
    publisher::{DISK_TIMEOUT, Publisher},
    state_writer::StateWriter,
};
use crate::{
    config::ImdsSettings,
    engine::{Effect, Engine, Input},
    event::EventId,
    heartbeat,
    imds::{
        Client,
        cadence::{self, PollResult},
        timeouts::PollTimeouts,
    },
    otlp::signal::Signal,
    snapshot::{ExportCounts, PushCounts, RequestError},
    time::{Clock, Moment},
};

/// Limit for the disk, and for the answer to an approval, at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Of an approval, since no poll is sent meanwhile. IMDS answers at once; without an answer it may have been accepted.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(3);

/// The engine, and what performs its effects, except the IMDS client.
pub(super) struct Driver {
    pub(super) engine: Engine,
    pub(super) clock: Clock,
    pub(super) state: Option<StateWriter>,
    pub(super) spans: Option<ExportQueue>,
    pub(super) log_records: Option<ExportQueue>,
    /// Of the metrics that are pushed.
    pub(super) metric_counts: watch::Receiver<ExportCounts>,
    pub(super) push_counts: watch::Receiver<PushCounts>,
    pub(super) publisher: Publisher,
    /// An approval requested by the engine.
    pub(super) approval: Option<EventId>,
    /// The next poll must omit `If-None-Match`.
    pub(super) needs_whole_document: bool,
}

impl Driver {
    /// Gives an input to the engine and performs the effects.
    fn apply(&mut self, input: Input) {
        let now = self.clock.now();
        for effect in self.engine.handle(input, now) {
            self.perform(effect, now);
        }
        if !self.is_write_outstanding() {
            self.publisher.state_is_on_disk();
        }
    }

    fn perform(&mut self, effect: Effect, now: Moment) {
        match effect {
            Effect::Log(entry) => logging::entry(&entry),
            Effect::DiscardForeignState => {
                self.needs_whole_document = true;
                if let Some(state) = &mut self.state {
                    state.discard_foreign(now.wall);
                }
            }
            Effect::Export(signal, batch) => {
                let queue = match signal {
                    Signal::Traces => &self.spans,
                    Signal::Logs => &self.log_records,
                    // Pushed from snapshots.
                    Signal::Metrics => return,
                };
                if let Some(queue) = queue {
                    queue.spool.append(batch, now);
                }
            }
            Effect::SaveState(saved) => {
                if let Some(state) = &mut self.state {
                    state.write(*saved);
                }
            }
            Effect::Publish(snapshot) => {
                let is_write_outstanding = self.is_write_outstanding();
                self.publisher.publish(snapshot, is_write_outstanding);
            }
            Effect::Approve(id) => self.approval = Some(id),
        }
    }

    fn is_write_outstanding(&self) -> bool {
        self.state.as_ref().is_some_and(StateWriter::is_outstanding)
    }

    /// The next input that does not come from IMDS.
    async fn next_input(&mut self, ticks: &mut Interval) -> Input {
        loop {
            return tokio::select! {
                biased;
                _ = ticks.tick(), if self.engine.wants_heartbeat() => Input::Tick,
                result = written(&mut self.state) => Input::StateWritten(result),
                () = self.publisher.overdue() => {
                    self.publisher.state_is_late();
                    continue;
                }
                counts = exported(&mut self.spans) => Input::ExportCounts(Signal::Traces, counts),
                counts = exported(&mut self.log_records) => Input::ExportCounts(Signal::Logs, counts),
                counts = changed(&mut self.metric_counts) => Input::ExportCounts(Signal::Metrics, counts),
                counts = changed(&mut self.push_counts) => Input::PushCounts(counts),
            };
        }
    }

    /// Waits for `future` and applies all other inputs meanwhile.
    async fn drive<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut ticks = ticks();
        loop {
            tokio::select! {
                biased;
                input = self.next_input(&mut ticks) => self.apply(input),
                done = &mut future => return done,
            }
        }
    }

    /// Waits until no write of the state is outstanding.
    async fn flush(&mut self, limit: Duration) {
        let mut limit = pin!(sleep(limit));
        let mut ticks = ticks();
        while self.is_write_outstanding() {
            tokio::select! {
                input = self.next_input(&mut ticks) => self.apply(input),
                () = &mut limit => return,
            }
        }
    }
}

fn ticks() -> Interval {
    let mut ticks = interval(heartbeat::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn written(state: &mut Option<StateWriter>) -> Result<(), String> {
    match state {
        Some(state) => state.written().await,
        None => pending().await,
    }
}

async fn exported(queue: &mut Option<ExportQueue>) -> ExportCounts {
    match queue {
        Some(queue) => changed(&mut queue.counts).await,
        None => pending().await,
    }
}

/// The next value; never ready without a sender.
async fn changed<T: Clone>(values: &mut watch::Receiver<T>) -> T {
    if values.changed().await.is_ok() {
        return values.borrow_and_update().clone();
    }
    pending().await
}

/// Polls IMDS.
pub(super) struct EventLoop {
    client: Client,
    imds: ImdsSettings,
    interval: Duration,
    driver: Driver,
    timeouts: PollTimeouts,
    consecutive_failures: u32,
    identity_unavailable: u32,
}

impl EventLoop {
    pub(super) fn new(
        client: Client,
        imds: ImdsSettings,
        interval: Duration,
        driver: Driver,
    ) -> Self {
        Self {
            client,
            imds,
            interval,
            driver,
            timeouts: PollTimeouts::default(),
            consecutive_failures: 0,
            identity_unavailable: 0,
        }
    }

    /// Runs until it is cancelled, then saves the state.
    pub(super) async fn run(&mut self, stopping: &CancellationToken) {
        let mut identity_due = Duration::ZERO;
        while !stopping.is_cancelled() {
            let now = self.driver.clock.now().monotonic;
            if self.driver.engine.needs_identity() && now >= identity_due {
                let Some(delay) = self.identify(stopping).await else {
                    break;
                };
                identity_due = self.driver.clock.now().monotonic.saturating_add(delay);
            }
            let Some(delay) = self.poll(stopping).await else {
                break;
            };
            let pause = stopping.run_until_cancelled(sleep(delay));
            self.driver.drive(pause).await;
        }
        self.driver.apply(Input::Shutdown);
        self.driver.flush(SHUTDOWN_TIMEOUT).await;
        self.driver.publisher.state_is_late();
    }

    /// Requests the identity of this VM. Returns the delay before the next attempt; `None` when cancelled.
    async fn identify(&mut self, stopping: &CancellationToken) -> Option<Duration> {
        let clock = self.driver.clock;
        let began = clock.now();
        let request = stopping.run_until_cancelled(self.client.identify(clock));
        let result = self.driver.drive(request).await?;
        let took = elapsed(began, clock.now());
        let result = result.map_err(|error| RequestError::from(&error));
        let error = result.as_ref().err().cloned();
        self.driver.apply(Input::Identified { result, took });
        let Some(error) = error else {
            return Some(Duration::ZERO);
        };
        let is_name_configured = self.imds.vm_name.is_some();
        if cadence::is_identity_unavailable(&error, is_name_configured) {
            self.identity_unavailable = self.identity_unavailable.saturating_add(1);
        } else {
            self.identity_unavailable = 0;
        }
        let timing = self.imds.identity_timing;
        Some(cadence::identity_retry_delay(
            &error,
            self.identity_unavailable,
            timing,
        ))
    }

    /// Requests the events, and sends at most one approval. Returns the delay before the next poll; `None` when
    /// cancelled.
    async fn poll(&mut self, stopping: &CancellationToken) -> Option<Duration> {
        if std::mem::take(&mut self.driver.needs_whole_document) {
            self.client.clear_etag();
        }
        let clock = self.driver.clock;
        let began = clock.now();
        let is_long = self.timeouts.is_long(began.monotonic);
        let timeout = if is_long {
            self.imds.first_timeout
        } else {
            self.imds.timeout
        };
        let request = stopping.run_until_cancelled(self.client.poll(timeout, clock));
        let result = self.driver.drive(request).await?;
        let took = elapsed(began, clock.now());
        let result = result.map_err(|error| RequestError::from(&error));
        let failure = result.as_ref().err().map(|error| error.reason);
        let ended = began.monotonic.saturating_add(took);
        self.timeouts.record(is_long, failure, ended);
        let outcome = self.outcome(result.as_ref().err());
        self.driver.apply(Input::Polled { result, took });
        if let Some(id) = self.driver.approval.take() {
            self.approve(id, stopping).await;
        }
        let busy = elapsed(began, clock.now());
        let jitter = fastrand::f64();
        let delay = cadence::next_delay(outcome, busy, self.interval, jitter);
        let approval_due = match outcome {
            PollResult::Answered => self.driver.engine.approval_due_in(clock.now()),
            PollResult::Failed { .. } => None,
        };
        let earliest = |due: Duration| due.max(cadence::MIN_REQUEST_INTERVAL);
        Some(approval_due.map_or(delay, |due| delay.min(earliest(due))))
    }

    fn outcome(&mut self, error: Option<&RequestError>) -> PollResult {
        let Some(error) = error else {
            self.consecutive_failures = 0;
            return PollResult::Answered;
        };
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        PollResult::Failed {
            reason: error.reason,
            status: error.status,
            retry_after: error.retry_after,
            consecutive_failures: self.consecutive_failures,
        }
    }

    /// Sends an approval once the state that records it is on disk. It is not cancelled: the end of the process waits
    /// for the answer, but no longer than [`SHUTDOWN_TIMEOUT`].
    async fn approve(&mut self, id: EventId, stopping: &CancellationToken) {
        self.driver.flush(DISK_TIMEOUT).await;
        let clock = self.driver.clock;
        let began = clock.now();
        let timeout = self.imds.timeout.min(APPROVAL_TIMEOUT);
        let request = self.client.approve(&id, timeout, clock);
        let too_late = async {
            stopping.cancelled().await;
            sleep(SHUTDOWN_TIMEOUT).await;
        };
        let answer = async {
            tokio::select! {
                biased;
                result = request => Some(result),
                () = too_late => None,
            }
        };
        let Some(result) = self.driver.drive(answer).await else {
            logging::approval_unanswered(&id);
            return;
        };
        let result = result.map_err(|error| RequestError::from(&error));
        let took = elapsed(began, clock.now());
        self.driver.apply(Input::ApprovalSent { id, result, took });
    }
}

fn elapsed(began: Moment, now: Moment) -> Duration {
    now.monotonic.saturating_sub(began.monotonic)
}
