//! Brings what is in the spool to the collector: in order, at once, one request at a time.
//!
//! Promised: nothing leaves the spool but what a collector took or refused for good; a collector that is away, hangs or
//! is slow costs nobody else any time; at the end the rest is sent for as long as [`Pace::flush`], and stays in the spool
//! otherwise. Certificates that cannot be read are read again with the next attempt, and so are those with which TLS
//! fails, where they were read longer ago than [`Pace::longest_pause`]: such files are renewed, but a whole store is much
//! to read.

mod connection;
mod data;
mod disposition;

use std::{pin::pin, time::Duration};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

pub use connection::SetupError;

use self::{
    connection::CollectorClient,
    disposition::{Disposition, ExportAttempt},
};
use super::{
    settings::OtlpSettings,
    spool::{Batch, Lent, SpoolHandle},
};
use crate::{outbound::retry::backoff, snapshot::ExportFailure, time::Clock};

/// How patient the sender is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The pause after the first failure; each further one doubles it.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// How often the spool is looked after while nothing happens.
    pub maintenance: Duration,
    /// How long the rest is tried at the end.
    pub flush: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_mins(1),
            maintenance: Duration::from_secs(30),
            flush: Duration::from_secs(5),
        }
    }
}

/// Sends until `stop` says so, then what can still be sent.
pub async fn run(
    settings: OtlpSettings,
    spool: SpoolHandle,
    clock: Clock,
    pace: Pace,
    stop: watch::Receiver<bool>,
) {
    info!(
        endpoint = %settings.shown_endpoint(),
        gzip = settings.gzip,
        survives_restart = spool.is_durable(),
        "sending traces"
    );
    for ignored in &settings.ignored {
        warn!("{ignored}");
    }
    let mut sender = Sender {
        settings,
        spool: spool.clone(),
        clock,
        pace,
        stop: stop.clone(),
        connection: None,
        stale_at: Duration::ZERO,
        failures: 0,
        failing: None,
    };
    {
        let mut sending = pin!(sender.go_on());
        let mut stop = stop;
        tokio::select! {
            () = &mut sending => {}
            () = told(&mut stop) => {
                // What is under way goes on; cut off, it is sent once more after the next start.
                if timeout(pace.flush, sending).await.is_err() {
                    info!("no more time to send spans");
                }
            }
        }
    }
    let waiting = spool.counts().borrow().spooled;
    if waiting > 0 {
        warn!(
            spans = waiting,
            kept = spool.is_durable(),
            "stopping with unsent spans"
        );
    }
}

/// Done once the sender says so, or is gone.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _sender_gone = stop.wait_for(|stop| *stop).await.is_err();
}

struct Sender {
    settings: OtlpSettings,
    spool: SpoolHandle,
    clock: Clock,
    pace: Pace,
    stop: watch::Receiver<bool>,
    connection: Option<CollectorClient>,
    /// From when on its certificates may have been renewed, by the monotonic clock.
    stale_at: Duration,
    /// In a row.
    failures: u32,
    /// The reason that was logged last.
    failing: Option<ExportFailure>,
}

impl Sender {
    /// Ends when it is to stop, and nothing is left or can be sent.
    async fn go_on(&mut self) {
        loop {
            let now = self.clock.now().wall;
            let Some(lent) = self.spool.next(now).await else {
                if self.is_stopping() {
                    return;
                }
                self.rest().await;
                continue;
            };
            let met = self.attempt(&lent.batch).await;
            let verdict = Disposition::of(met);
            let Some(asked) = self.settle(&lent, verdict).await else {
                continue;
            };
            // Where the spool is on disk, the next start has more time than this end.
            if self.is_stopping() && self.spool.is_durable() {
                return;
            }
            self.pause(asked).await;
        }
    }

    fn is_stopping(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    async fn attempt(&mut self, batch: &Batch) -> ExportAttempt {
        let connection = if let Some(connection) = self.connection.take() {
            Ok(connection)
        } else {
            let now = self.clock.now().monotonic;
            self.stale_at = now.saturating_add(self.pace.longest_pause);
            CollectorClient::open(&self.settings, self.clock).await
        };
        match connection {
            Ok(mut connection) => {
                let met = connection.send(batch).await;
                let is_tls = matches!(&met, ExportAttempt::Nothing { reason, .. } if *reason == ExportFailure::Tls);
                let is_stale = is_tls && self.clock.now().monotonic >= self.stale_at;
                self.connection = (!is_stale).then_some(connection);
                met
            }
            Err(error) => ExportAttempt::Nothing {
                reason: ExportFailure::Tls,
                message: error.to_string(),
            },
        }
    }

    /// Does what a verdict asks for. Returns the pause that the collector wants where the batch has to be sent again.
    async fn settle(&mut self, lent: &Lent, verdict: Disposition) -> Option<Option<Duration>> {
        let spans = lent.batch.spans.len() as u64;
        match verdict {
            Disposition::Taken { rejected, message } => {
                self.recovered();
                let rejected = rejected.min(spans);
                if rejected > 0 {
                    self.spool
                        .count(|counts| counts.fail(ExportFailure::PartialSuccess));
                    warn!(
                        rejected,
                        of = spans,
                        message,
                        "the collector did not take all of the spans: what it rejected is dropped"
                    );
                } else if !message.is_empty() {
                    warn!(message, "the collector took all spans, with a warning");
                }
                self.spool
                    .done(lent.ticket, spans - rejected, rejected)
                    .await;
                // Of a part it is not said which one.
                if rejected < spans {
                    report_sent(&lent.batch);
                }
                None
            }
            Disposition::Refused { message } => {
                self.recovered();
                self.spool
                    .count(|counts| counts.fail(ExportFailure::Rejected));
                warn!(
                    spans,
                    error = message,
                    "the collector refused spans for good: dropped"
                );
                self.spool.done(lent.ticket, 0, spans).await;
                None
            }
            Disposition::Again {
                reason,
                message,
                retry_after,
            } => {
                self.failed(reason, &message);
                Some(retry_after)
            }
        }
    }

    /// Said when it begins and when the reason changes, not with each attempt.
    fn failed(&mut self, reason: ExportFailure, message: &str) {
        self.failures = self.failures.saturating_add(1);
        self.spool.count(|counts| counts.fail(reason));
        if self.failing.replace(reason) != Some(reason) {
            warn!(
                reason = reason.as_str(),
                error = message,
                endpoint = %self.settings.shown_endpoint(),
                "spans cannot be sent: they wait and are tried again"
            );
        }
    }

    fn recovered(&mut self) {
        self.failures = 0;
        if self.failing.take().is_some() {
            info!("spans can be sent again");
        }
    }

    /// Until there is something to send.
    async fn rest(&mut self) {
        tokio::select! {
            () = self.spool.fresh() => {}
            () = told(&mut self.stop) => {}
            () = sleep(self.pace.maintenance) => {
                self.spool.maintain(self.clock.now().wall).await;
            }
        }
    }

    /// Until it is time to try again. Spans of a new event are worth an attempt of their own, since a Spot VM lives for
    /// seconds only, but not against the wish of a collector.
    async fn pause(&mut self, asked: Option<Duration>) {
        let Pace {
            first_pause,
            longest_pause,
            ..
        } = self.pace;
        self.spool.maintain(self.clock.now().wall).await;
        if self.is_stopping() {
            // There is nothing to wait for but the end.
            return sleep(first_pause.min(Duration::from_millis(500))).await;
        }
        let pause = asked
            .unwrap_or_else(|| backoff(first_pause, longest_pause, self.failures, fastrand::f64()));
        tokio::select! {
            () = sleep(pause) => {}
            () = self.spool.fresh(), if asked.is_none() => {}
            () = told(&mut self.stop) => {}
        }
    }
}

/// One line per span, so that a line of the log leads to the trace.
fn report_sent(batch: &Batch) {
    for span in &batch.spans {
        info!(
            trace_id = span.trace_id_hex(),
            span_id = span.span_id_hex(),
            span = span.name,
            start = span.start.rfc3339_millis(),
            end = span.end.rfc3339_millis(),
            "span sent"
        );
    }
}
