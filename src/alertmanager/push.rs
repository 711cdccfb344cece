//! Pushes alerts to one Alertmanager from a task of its own: each one immediately when it changes, then at intervals.
//!
//! It reads published snapshots and delays neither polls nor other Alertmanagers. An alert is resolved when its event
//! has ended or another alert has replaced it, never because a poll failed.

use std::{future::pending, sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    client::{Client, RequestFailure},
    queue::{AlertBatch, AlertQueue},
    target::{SetupError, Target},
};
use crate::{
    snapshot::{PushCounts, Snapshot},
    time::Clock,
    worker::Worker,
};

#[derive(Debug)]
pub(crate) struct Pusher {
    client: Client,
    counts: watch::Sender<PushCounts>,
    queue: AlertQueue,
    /// Consecutive failed pushes.
    failures: u32,
    is_overflowing: bool,
}

impl Pusher {
    /// A cryptography provider must be installed in the process.
    ///
    /// # Errors
    /// When a file cannot be read, or the system has no certificate authorities.
    pub(crate) fn new(
        target: Target,
        worker: Worker,
        clock: Clock,
        counts: watch::Sender<PushCounts>,
    ) -> Result<Self, SetupError> {
        Ok(Self {
            queue: AlertQueue::new(target.timing).with_labels(target.labels.clone()),
            client: Client::new(target, worker, clock)?,
            counts,
            failures: 0,
            is_overflowing: false,
        })
    }

    /// Pushes until `stop` is cancelled, then what is new and not sent.
    pub(crate) async fn run(
        mut self,
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        stop: CancellationToken,
    ) {
        let mut retry_at = Duration::ZERO;
        loop {
            let is_last = stop.is_cancelled();
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            let now = self.client.clock.now();
            let may_send = is_last || retry_at <= now.monotonic;
            let batch = if may_send {
                self.queue.next(&snapshot, now, is_last)
            } else {
                AlertBatch::default()
            };
            self.report_overflow();
            if !batch.is_empty() {
                let retry_in = self.push(batch).await;
                if let Some(delay) = retry_in {
                    retry_at = self.client.clock.now().monotonic.saturating_add(delay);
                }
                if retry_in.is_none() || !is_last {
                    continue;
                }
            }
            if is_last {
                return;
            }
            let retry_at = Some(retry_at).filter(|at| *at > now.monotonic);
            let check_at = retry_at.or_else(|| self.queue.next_check());
            let wait = check_at.map(|at| at.saturating_sub(now.monotonic));
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                () = stop.cancelled() => {}
                () = sleep_if_some(wait) => {}
            }
        }
    }

    fn report_overflow(&mut self) {
        let skipped = self.queue.skipped();
        let was_overflowing = std::mem::replace(&mut self.is_overflowing, skipped > 0);
        if skipped > 0 && !was_overflowing {
            let alertmanager = self.client.target.base.as_str();
            warn!(
                alertmanager,
                skipped, "too many alerts: some are not pushed"
            );
        }
    }

    /// Sends alerts in one request. If it fails, returns the time until the next attempt.
    async fn push(&mut self, batch: AlertBatch) -> Option<Duration> {
        let alerts: Vec<_> = batch.alerts().collect();
        let pushed = self.client.push(&alerts).await;
        self.counts.send_modify(|counts| {
            counts.pushes += 1;
            counts.failures += u64::from(pushed.is_err());
        });
        let target = &self.client.target;
        let alertmanager = target.base.as_str();
        let failures = std::mem::take(&mut self.failures);
        if let Err(RequestFailure {
            message,
            retry_after,
        }) = pushed
        {
            if failures == 0 {
                warn!(alertmanager, error = message, "alert push failed");
            }
            self.failures = failures.saturating_add(1);
            return Some(target.timing.retry_delay(retry_after, self.failures));
        }
        if batch.has_news || failures > 0 {
            let ended = alerts.iter().filter(|alert| alert.is_resolved).count();
            let firing = alerts.len() - ended;
            info!(alertmanager, firing, ended, "alerts pushed");
        }
        self.queue.accepted(batch, self.client.clock.now());
        None
    }
}

/// Without a duration, never ready.
async fn sleep_if_some(duration: Option<Duration>) {
    match duration {
        Some(duration) => sleep(duration).await,
        None => pending().await,
    }
}
