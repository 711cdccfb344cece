//! Pushes alerts to one Alertmanager from a task of its own: each one immediately when it changes, then at intervals.
//!
//! It reads published snapshots and delays neither polls nor other Alertmanagers. An alert is resolved when its event
//! has ended or another alert has replaced it, never because a poll failed.

use std::{future::pending, sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    client::{AlertmanagerClient, RequestFailure},
    queue::{AlertBatch, AlertQueue, Wanted},
    target::{Target, TargetError},
};
use crate::{
    snapshot::{PushCounts, Snapshot},
    time::Clock,
    worker::Worker,
};

#[derive(Debug)]
pub(crate) struct AlertPusher {
    client: AlertmanagerClient,
    counts: watch::Sender<PushCounts>,
    queue: AlertQueue,
    /// Consecutive failed pushes.
    failures: u32,
    /// The next attempt after a failed one, by the monotonic clock.
    retry_at: Duration,
    /// Alertmanager asked for that delay: new alerts wait, too.
    is_held: bool,
}

impl AlertPusher {
    /// A cryptography provider must be installed in the process.
    ///
    /// # Errors
    /// When a file cannot be read, or the system has no certificate authorities.
    pub(crate) fn new(
        target: Target,
        worker: Worker,
        clock: Clock,
        counts: watch::Sender<PushCounts>,
    ) -> Result<Self, TargetError> {
        Ok(Self {
            queue: AlertQueue::new(target.timing, target.labels.clone()),
            client: AlertmanagerClient::new(target, worker, clock)?,
            counts,
            failures: 0,
            retry_at: Duration::ZERO,
            is_held: false,
        })
    }

    /// Pushes until `stop` is cancelled, then what is new and not sent.
    pub(crate) async fn run(
        mut self,
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        stop: CancellationToken,
    ) {
        loop {
            let is_last = stop.is_cancelled();
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            let now = self.client.clock.now();
            let is_waiting = self.retry_at > now.monotonic;
            let wanted = match is_waiting {
                _ if is_last => Some(Wanted::News),
                false => Some(Wanted::All),
                // A new alert does not wait: a Spot VM has only seconds.
                true => (!self.is_held).then_some(Wanted::Untried),
            };
            let batch = wanted.map(|wanted| self.queue.next(&snapshot, now, wanted));
            let batch = batch.unwrap_or_default();
            if !batch.is_empty() {
                let is_accepted = self.push(batch, is_waiting).await;
                if is_accepted || !is_last {
                    continue;
                }
            }
            if is_last {
                return;
            }
            let retry_at = is_waiting.then_some(self.retry_at);
            let check_at = retry_at.or_else(|| self.queue.next_check());
            let wait = check_at.map(|at| at.saturating_sub(now.monotonic));
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                () = stop.cancelled() => {}
                () = sleep_if_some(wait) => {}
            }
        }
    }

    /// Sends alerts in one request. A failure while an earlier one waits for its next attempt does not move that.
    async fn push(&mut self, batch: AlertBatch, is_waiting: bool) -> bool {
        let alerts: Vec<_> = batch.alerts().collect();
        let pushed = self.client.push(&alerts).await;
        self.counts.send_modify(|counts| {
            counts.pushes += 1;
            counts.failures += u64::from(pushed.is_err());
        });
        let now = self.client.clock.now();
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
            self.is_held = retry_after.is_some();
            if !is_waiting || self.is_held {
                let delay = target.timing.retry_delay(retry_after, self.failures);
                self.retry_at = now.monotonic.saturating_add(delay);
            }
            return false;
        }
        if batch.has_news || failures > 0 {
            let ended = alerts.iter().filter(|alert| alert.is_resolved).count();
            let firing = alerts.len() - ended;
            info!(alertmanager, firing, ended, "alerts pushed");
        }
        self.retry_at = Duration::ZERO;
        self.queue.accepted(batch, now);
        true
    }
}

/// Without a duration, never ready.
async fn sleep_if_some(duration: Option<Duration>) {
    match duration {
        Some(duration) => sleep(duration).await,
        None => pending().await,
    }
}
