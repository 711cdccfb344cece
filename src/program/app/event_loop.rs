//! The event loop: waits for the next input, gives it to the engine, performs the effects in their order. The poller
//! adds the inputs from IMDS.
//!
//! It never waits for a receiver, and waits for the disk only before an approval. A snapshot is published after its
//! state is on disk, or after [`DISK_TIMEOUT`](super::publisher::DISK_TIMEOUT).

use std::{
    future::{Future, pending},
    pin::pin,
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval, sleep},
};

use super::{logging, publisher::Publisher, state_writer::StateWriter, tasks::ExportQueue};
use crate::{
    azure::event::EventId,
    base::time::{Clock, Moment},
    core::{
        engine::{Changes, Effect, Engine, Input},
        pause,
        snapshot::{ExportCounts, PushCounts, ReceiverStates},
    },
    outputs::otlp::{batch, settings::OtlpSettings, signal::Signal},
};

/// The engine, and what performs its effects, except the IMDS client.
pub(super) struct EventLoop {
    pub(super) engine: Engine,
    pub(super) clock: Clock,
    pub(super) state: Option<StateWriter>,
    pub(super) otlp: Option<OtlpSettings>,
    pub(super) spans: Option<ExportQueue>,
    pub(super) log_records: Option<ExportQueue>,
    /// Of the push of metrics over OTLP.
    pub(super) metric_counts: watch::Receiver<ExportCounts>,
    /// Of the pushes of alerts.
    pub(super) push_counts: watch::Receiver<PushCounts>,
    pub(super) receiver_states: watch::Receiver<ReceiverStates>,
    pub(super) publisher: Publisher,
    /// An approval requested by the engine.
    pub(super) approval: Option<EventId>,
    /// The next poll must ask for the whole document, and read it even if it is the same as before.
    pub(super) needs_whole_document: bool,
    pub(super) ticks: Interval,
}

/// When pauses of this VM are looked for, while it has an event.
pub(super) fn pause_ticks() -> Interval {
    let mut ticks = interval(pause::PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

impl EventLoop {
    /// Gives an input to the engine and performs the effects.
    pub(super) fn apply(&mut self, input: Input) {
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
            Effect::Emit(changes) => self.export(&changes, now),
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

    fn export(&self, changes: &Changes, now: Moment) {
        for (signal, batch) in self
            .otlp
            .iter()
            .flat_map(|settings| batch::of(changes, settings))
        {
            let queue = match signal {
                Signal::Traces => &self.spans,
                Signal::Logs => &self.log_records,
                Signal::Metrics => &None,
            };
            if let Some(queue) = queue {
                queue.spool.append(batch, now);
            }
        }
    }

    fn is_write_outstanding(&self) -> bool {
        self.state.as_ref().is_some_and(StateWriter::is_outstanding)
    }

    /// The next input that does not come from IMDS.
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
                counts = exported(&mut self.spans) => Input::SpanCounts(counts),
                counts = exported(&mut self.log_records) => Input::LogRecordCounts(counts),
                counts = changed(&mut self.metric_counts) => Input::MetricCounts(counts),
                counts = changed(&mut self.push_counts) => Input::PushCounts(counts),
                states = changed(&mut self.receiver_states) => Input::ReceiverStates(states),
            };
        }
    }

    /// Waits for `future` and applies all other inputs meanwhile.
    pub(super) async fn run_while<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                input = self.next_input() => self.apply(input),
                done = &mut future => return done,
            }
        }
    }

    /// Waits until no write of the state is outstanding.
    pub(super) async fn flush(&mut self, limit: Duration) {
        let mut limit = pin!(sleep(limit));
        while self.is_write_outstanding() {
            tokio::select! {
                input = self.next_input() => self.apply(input),
                () = &mut limit => return,
            }
        }
    }
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
