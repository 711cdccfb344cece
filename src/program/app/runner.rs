//! The loop of the exporter: waits for the next input, gives it to the engine, performs the effects in their order.
//!
//! It never waits for a receiver, and waits for the disk only at the end. A snapshot is published after its state is on
//! disk, or after [`DISK_TIMEOUT`](super::publisher::DISK_TIMEOUT).

use std::{future::pending, pin::pin, time::Duration};

use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use super::{
    imds_requests::ImdsRequests, logging, outputs::Outputs, publisher::Publisher,
    state_writer::StateWriter,
};
use crate::{
    base::{
        system::ProcessDelays,
        time::{Clock, Moment},
    },
    core::{
        engine::{Effect, Engine, Input},
        pause::{self, ProcessDelay},
    },
};

/// Limit for the disk at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The engine, and what gives it inputs and performs its effects.
pub(super) struct Runner {
    pub(super) engine: Engine,
    pub(super) clock: Clock,
    pub(super) requests: ImdsRequests,
    pub(super) state: Option<StateWriter>,
    pub(super) outputs: Outputs,
    pub(super) publisher: Publisher,
    pub(super) ticks: Interval,
    pub(super) delays: ProcessDelays,
}

/// When pauses of this VM are looked for, while it has an event.
pub(super) fn pause_ticks() -> Interval {
    let mut ticks = interval(pause::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl Runner {
    /// Runs until `stopping` is cancelled, then saves the state. The runner still publishes the last snapshot: outputs
    /// that read it at shutdown end with it.
    pub(super) async fn run(&mut self, stopping: &CancellationToken) {
        loop {
            self.requests.schedule(&self.engine);
            let may_stop = !self.requests.is_approving();
            let input = tokio::select! {
                biased;
                () = stopping.cancelled(), if may_stop => break,
                input = self.next_input() => input,
            };
            self.handle(input);
        }
        self.requests.stop();
        self.handle(Input::Shutdown);
        let mut limit = pin!(sleep(SHUTDOWN_TIMEOUT));
        while self.is_write_outstanding() {
            let input = tokio::select! {
                input = self.next_input() => input,
                () = &mut limit => break,
            };
            self.handle(input);
        }
        self.publisher.state_is_late();
    }

    async fn next_input(&mut self) -> Input {
        loop {
            return tokio::select! {
                biased;
                _ = self.ticks.tick(), if self.engine.looks_for_pauses() => Input::Tick,
                result = written(&mut self.state) => Input::StateWritten(result),
                () = self.publisher.overdue() => {
                    self.publisher.state_is_late();
                    continue;
                }
                input = self.outputs.next_counts() => input,
                input = self.requests.completed() => input,
            };
        }
    }

    /// Gives an input to the engine and performs the effects.
    fn handle(&mut self, input: Input) {
        let now = self.clock.now();
        let measures = matches!(input, Input::Tick | Input::Polled { .. });
        if measures && self.engine.looks_for_pauses() {
            let (waited, was_stopped) = self.delays.take();
            let delay = ProcessDelay {
                waited,
                was_stopped,
            };
            self.apply(Input::Delayed(delay), now);
        }
        self.apply(input, now);
        if !self.is_write_outstanding() {
            self.publisher.state_is_on_disk();
        }
    }

    fn apply(&mut self, input: Input, now: Moment) {
        for effect in self.engine.handle(input, now) {
            self.perform(effect, now);
        }
    }

    fn perform(&mut self, effect: Effect, now: Moment) {
        match effect {
            Effect::Log(entry) => logging::entry(&entry),
            Effect::DiscardForeignState => {
                self.requests.forget_document();
                if let Some(state) = &mut self.state {
                    state.discard_foreign(now.wall);
                }
            }
            Effect::Emit(changes) => self.outputs.send(&changes, now),
            Effect::SaveState(saved) => {
                if let Some(state) = &mut self.state {
                    state.write(*saved);
                }
            }
            Effect::Publish(snapshot) => {
                let is_write_outstanding = self.is_write_outstanding();
                self.publisher.publish(snapshot, is_write_outstanding);
            }
            Effect::Approve(id) => {
                let is_writing = self.state.as_ref().map(StateWriter::is_writing);
                self.requests.approve(id, is_writing);
            }
        }
    }

    fn is_write_outstanding(&self) -> bool {
        self.state.as_ref().is_some_and(StateWriter::is_outstanding)
    }
}

async fn written(state: &mut Option<StateWriter>) -> Result<(), String> {
    match state {
        Some(state) => state.written().await,
        None => pending().await,
    }
}
