//! The one event loop: asks, takes in, carries out what follows, waits.

use std::{future::pending, pin::pin, time::Duration};

use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};

use super::{
    approving::Approver,
    exporter::Exporter,
    keeper::{self, Keeper},
    traces::Traces,
};
use crate::{
    alertmanager::Pushed,
    config::Config,
    document::Answer,
    heartbeat,
    imds::{self, Client, cadence},
    lifecycle::Transition,
    snapshot::RequestError,
    time::{Clock, Moment},
};

/// What is known, and where it is kept.
pub(super) struct Core {
    pub(super) exporter: Exporter,
    pub(super) traces: Option<Traces>,
    pub(super) keeper: Option<Keeper>,
    pub(super) boot_id: Option<String>,
    pub(super) clock: Clock,
    /// What the pushers did.
    pub(super) pushed: mpsc::UnboundedReceiver<Pushed>,
}

impl Core {
    /// The effects of what happened, in this order: the spool, the state file, then the picture that every reader sees.
    /// A crash between two of them repeats, and loses nothing.
    pub(super) async fn settle(&mut self, transitions: &[Transition]) {
        self.settle_within(transitions, keeper::PATIENCE).await;
    }

    /// The same, with so much patience for the disk.
    async fn settle_within(&mut self, transitions: &[Transition], patience: Duration) {
        let now = self.clock.now();
        if let Some(keeper) = self.keeper.as_mut().filter(|_| !transitions.is_empty()) {
            keeper.mark();
        }
        let learnt = self.exporter.take_learnt();
        if let Some(traces) = &self.traces {
            let (identity, vm_name) = self.exporter.who();
            traces
                .append(transitions, &learnt, identity, vm_name, now.wall)
                .await;
        }
        if let Some(keeper) = &mut self.keeper {
            let is_pending = self.exporter.is_pending();
            let saved = || self.exporter.saved(self.boot_id.as_deref(), now);
            keeper.keep(is_pending, now, saved, patience).await;
        }
        self.publish();
    }

    /// Shows what is known now.
    fn publish(&mut self) {
        let counts = self.traces.as_ref().map(Traces::counts);
        if let Some(counts) = &counts {
            self.exporter.show_spans(counts);
        }
        let state = self.keeper.as_ref().map_or(0, Keeper::failures);
        let spool = counts.map_or(0, |counts| counts.write_failures);
        self.exporter.show_write_failures(state, spool);
        while let Ok(pushed) = self.pushed.try_recv() {
            self.exporter.count_push(pushed);
        }
        self.exporter.publish(self.clock.now());
    }

    /// One beat of the pulse. It waits for nothing.
    fn beat(&mut self) {
        let now = self.clock.now();
        let happened = !self.exporter.beat(now).is_empty();
        if let Some(keeper) = &mut self.keeper {
            if happened {
                keeper.mark();
            }
            keeper.beat(now, || self.exporter.saved(self.boot_id.as_deref(), now));
        }
        if happened {
            self.publish();
        }
    }

    /// Waits for `future` and takes the pulse meanwhile, where there is something to take it for.
    pub(super) async fn beating<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut beats = interval(heartbeat::PERIOD);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        if !self.exporter.is_own_pending() {
            self.exporter.beat(self.clock.now());
        }
        loop {
            tokio::select! {
                biased;
                _ = beats.tick(), if self.exporter.is_own_pending() => self.beat(),
                () = changed(&mut self.traces) => self.publish(),
                done = &mut future => return done,
            }
        }
    }
}

/// Done when there is news of the spans; never where none are sent.
async fn changed(traces: &mut Option<Traces>) {
    match traces {
        Some(traces) => traces.changed().await,
        None => pending().await,
    }
}

/// The one event loop.
pub(super) struct Polling {
    settings: Config,
    client: Client,
    core: Core,
    approver: Approver,
    failures_in_a_row: u32,
    /// Consecutive 400 and 404 answers of instance metadata.
    identity_unavailable: u32,
}

impl Polling {
    pub(super) fn new(settings: Config, client: Client, core: Core) -> Self {
        Self {
            approver: Approver::new(settings.approvals),
            settings,
            client,
            core,
            failures_in_a_row: 0,
            identity_unavailable: 0,
        }
    }

    /// The end: what is known is kept once more.
    pub(super) async fn end(&mut self) {
        if let Some(keeper) = &mut self.core.keeper {
            keeper.mark();
        }
        self.core.settle_within(&[], keeper::LAST_PATIENCE).await;
    }

    /// Asks for the events, again and again.
    pub(super) async fn go_on(&mut self) {
        let mut identity_due = Duration::ZERO;
        loop {
            let now = self.core.clock.now().monotonic;
            if self.core.exporter.needs_identity() && now >= identity_due {
                let pause = self.identify().await;
                let now = self.core.clock.now().monotonic;
                identity_due = now.saturating_add(pause);
            }
            let pause = self.poll().await;
            self.core.beating(sleep(pause)).await;
        }
    }

    /// Asks who this VM is; returns the pause before that may be asked again.
    async fn identify(&mut self) -> Duration {
        let clock = self.core.clock;
        let began = clock.now();
        let asked = self.core.beating(self.client.identify(clock)).await;
        let now = clock.now();
        let took = now.monotonic.saturating_sub(began.monotonic);
        let exporter = &mut self.core.exporter;
        let failure = asked.as_ref().err().map(RequestError::from);
        let is_unavailable = failure
            .as_ref()
            .is_some_and(cadence::is_identity_unavailable);
        let counted = failure.as_ref().filter(|_| !is_unavailable);
        exporter.count_request(took, counted.map(|failure| failure.reason));
        self.identity_unavailable = if is_unavailable {
            self.identity_unavailable.saturating_add(1)
        } else {
            0
        };
        match asked {
            Ok(identity) => {
                let is_foreign = exporter.identified(identity);
                if is_foreign {
                    // What a 304 would confirm has been thrown away.
                    self.client.clear_etag();
                }
                match &mut self.core.keeper {
                    Some(keeper) if is_foreign => keeper.mark_foreign(now.wall),
                    Some(keeper) => keeper.mark(),
                    None => {}
                }
            }
            Err(error) => exporter.unidentified(&error.to_string()),
        }
        // What was learnt leaves now; a poll may hang.
        self.core.settle(&[]).await;
        let timing = self.settings.imds.identity_timing;
        failure.map_or(Duration::ZERO, |failure| {
            cadence::identity_retry_delay(&failure, self.identity_unavailable, timing)
        })
    }

    /// Asks for the events once; returns the pause before the next time.
    async fn poll(&mut self) -> Duration {
        let clock = self.core.clock;
        let imds = &self.settings.imds;
        let patience = if self.core.exporter.has_succeeded() {
            imds.timeout
        } else {
            imds.first_timeout
        };
        let began = clock.now();
        let polled = self.core.beating(self.client.poll(patience, clock)).await;
        let now = clock.now();
        let took = now.monotonic.saturating_sub(began.monotonic);
        self.core
            .exporter
            .count_request(took, polled.as_ref().err().map(imds::Error::reason));
        let (outcome, transitions) = self.take(polled, now);
        let is_answered = outcome == cadence::PollResult::Answered;
        if is_answered {
            self.approver.review(&mut self.core.exporter, now);
        }
        self.core.settle(&transitions).await;
        if is_answered {
            let patience = self.settings.imds.timeout;
            self.approver
                .work(&mut self.client, &mut self.core, patience)
                .await;
        }
        let all = clock.now().monotonic.saturating_sub(began.monotonic);
        let took = if is_answered { all } else { took };
        cadence::next_delay(outcome, took, self.settings.interval, fastrand::f64())
    }

    fn take(
        &mut self,
        polled: Result<Answer, imds::Error>,
        now: Moment,
    ) -> (cadence::PollResult, Vec<Transition>) {
        let exporter = &mut self.core.exporter;
        let transitions = match polled {
            Ok(Answer::Document {
                document,
                anomalies,
            }) => {
                self.approver.read(&document);
                exporter.observe(&document, &anomalies, now)
            }
            Ok(Answer::Unchanged) => {
                exporter.confirm(now);
                Vec::new()
            }
            Err(error) => {
                self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                exporter.failed(error.reason(), error.to_string(), now);
                let outcome = cadence::PollResult::Failed {
                    reason: error.reason(),
                    retry_after: error.retry_after(),
                    in_a_row: self.failures_in_a_row,
                };
                return (outcome, Vec::new());
            }
        };
        self.failures_in_a_row = 0;
        (cadence::PollResult::Answered, transitions)
    }
}
