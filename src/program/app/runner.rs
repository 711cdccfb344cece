//! The loop of the exporter: waits for the next input, gives it to the engine, performs the effects in their order.
//!
//! It never waits for a receiver, and for the disk half a second at most: a snapshot is published, and an approval is
//! sent, when its state is on disk, or late.

use std::{future::pending, path::PathBuf, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{imds_requests::ImdsRequests, outputs::OtlpOutput, state_writer::StateWriter};
use crate::{
    base::{kvp, system::ProcessDelays, systemd, time::Clock, worker::Worker},
    core::{
        engine::{Effect, Engine, Input},
        pause::{self, ProcessDelay},
        snapshot::Snapshot,
    },
};

/// Limit for the disk at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Limit for the disk when the name of the physical host is read.
const KVP_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Runner {
    pub(super) engine: Engine,
    pub(super) clock: Clock,
    pub(super) requests: ImdsRequests,
    pub(super) state: Option<StateWriter>,
    pub(super) otlp: Option<OtlpOutput>,
    pub(super) snapshots: watch::Sender<Arc<Snapshot>>,
    pub(super) ticks: Interval,
    pub(super) notifications: Notifications,
    pub(super) delays: ProcessDelays,
    pub(super) kvp_reader: Worker,
    pub(super) kvp_pool_file: Option<PathBuf>,
}

/// When pauses of this VM are looked for, while it has an event that can start soon.
pub(super) fn pause_ticks() -> Interval {
    let mut ticks = interval(pause::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The messages to systemd that the event loop runs.
pub(super) struct Notifications {
    ticks: Interval,
    is_failing: bool,
}

impl Notifications {
    /// At the start, and so often that a long pause of the VM does not look like a hung process.
    pub(super) fn new() -> Self {
        let timeout = systemd::watchdog_timeout().unwrap_or(Duration::from_hours(1));
        Self {
            ticks: interval((timeout / 4).max(pause::PERIOD)),
            is_failing: false,
        }
    }

    /// Sends them, and never returns.
    async fn send<T>(&mut self) -> T {
        loop {
            self.ticks.tick().await;
            let sent = systemd::notify_running();
            let was_failing = std::mem::replace(&mut self.is_failing, sent.is_err());
            if let (Err(error), false) = (sent, was_failing) {
                warn!(error = %error, "systemd was not notified (NOTIFY_SOCKET)");
            }
        }
    }
}

impl Runner {
    /// Runs until `stopping` is cancelled, then saves the state. The runner still publishes the last snapshot: outputs
    /// that read it at shutdown end with it.
    pub(super) async fn run(&mut self, stopping: &CancellationToken) {
        for effect in self.engine.begin(self.clock.now()) {
            self.perform(effect).await;
        }
        loop {
            self.requests.schedule(&self.engine);
            let may_stop = !self.requests.is_approving();
            let input = tokio::select! {
                biased;
                () = stopping.cancelled(), if may_stop => break,
                input = self.next_input() => input,
            };
            self.handle(input).await;
        }
        self.requests.stop();
        self.save().await;
    }

    /// Writes the state, also after the outputs have sent what is left.
    pub(super) async fn save(&mut self) {
        self.handle(Input::Shutdown).await;
        let mut limit = pin!(sleep(SHUTDOWN_TIMEOUT));
        while self.is_write_outstanding() {
            let input = tokio::select! {
                input = self.next_input() => input,
                () = &mut limit => break,
            };
            self.handle(input).await;
        }
    }

    async fn next_input(&mut self) -> Input {
        let ticks_in = self.engine.ticks_in(self.clock.now());
        tokio::select! {
            biased;
            input = self.notifications.send() => input,
            () = tick(&mut self.ticks, ticks_in) => Input::Tick,
            result = written(&mut self.state) => Input::StateWritten(result),
            input = self.requests.completed() => input,
            () = sent(self.otlp.as_ref()) => Input::Sent,
        }
    }

    async fn handle(&mut self, input: Input) {
        let now = self.clock.now();
        if matches!(input, Input::Tick | Input::Polled { .. }) {
            let (waited, was_stopped) = self.delays.take();
            self.engine.delayed(ProcessDelay {
                waited,
                was_stopped,
            });
        }
        self.engine.repeated(self.requests.take_repetitions());
        if input.needs_physical_host() {
            self.read_physical_host().await;
        }
        for effect in self.engine.handle(input, now) {
            self.perform(effect).await;
        }
    }

    /// On another thread: a disk that hangs does not stop the loop. The last name stays if it cannot be read now.
    async fn read_physical_host(&mut self) {
        let pool_file = self.kvp_pool_file.clone();
        let read = move || kvp::physical_host(pool_file.as_deref());
        let read = self.kvp_reader.run_while_awaited(read);
        if let Ok(Some(Ok(host))) = timeout(KVP_TIMEOUT, read).await {
            self.engine.set_physical_host(host.map(Arc::from));
        }
    }

    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::ForgetDocument => self.requests.forget_document(),
            Effect::Write { journal, mut state } => {
                if let Some(otlp) = &self.otlp {
                    state.journal.cursors = otlp.cursors(&journal);
                }
                if let Some(writer) = &mut self.state {
                    writer.write(*state, journal).await;
                }
            }
            Effect::Publish { snapshot, dropped } => {
                let journal = Arc::clone(&snapshot.journal);
                self.snapshots.send_replace(snapshot);
                if let Some(otlp) = &self.otlp {
                    otlp.update(&journal, &dropped);
                }
            }
            Effect::Approve(ids) => {
                if let Some(state) = &mut self.state {
                    state.wait().await;
                }
                self.requests.approve(ids);
            }
        }
    }

    fn is_write_outstanding(&self) -> bool {
        self.state.as_ref().is_some_and(StateWriter::is_outstanding)
    }
}

/// Waits for the next tick; `ticks_in` is the time until ticks are due.
async fn tick(ticks: &mut Interval, ticks_in: Option<Duration>) {
    let Some(ticks_in) = ticks_in else {
        return pending().await;
    };
    if !ticks_in.is_zero() {
        sleep(ticks_in).await;
    }
    ticks.tick().await;
}

async fn sent(otlp: Option<&OtlpOutput>) {
    match otlp {
        Some(otlp) => otlp.moved().await,
        None => pending().await,
    }
}

async fn written(state: &mut Option<StateWriter>) -> Result<(), String> {
    match state {
        Some(state) => state.written().await,
        None => pending().await,
    }
}
