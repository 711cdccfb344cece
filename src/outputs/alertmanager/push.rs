//! Pushes alerts to one Alertmanager from a task of its own: each one immediately when it changes, then at intervals.
//!
//! It reads published snapshots and delays neither polls nor other Alertmanagers. An alert is resolved when its event
//! has ended or another alert has replaced it, never because a poll failed.

use std::{sync::Arc, time::Duration};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    alert::Alert,
    queue::{AlertBatch, AlertQueue, Wanted},
    target::{Target, TargetError},
};
use crate::{
    base::{log_id, time::Clock, worker::Worker},
    core::snapshot::{PushCounts, Snapshot},
    http::client::{
        error::root_cause,
        http::{add_proxy_secrets, describe, read_up_to},
        resolver::Resolver,
        retry::retry_after,
        url::Secrets,
    },
};

/// Bytes that are read of a response that explains an error.
const MAX_ERROR_BODY: usize = 4 << 10;
/// Characters of it that are logged.
const MAX_MESSAGE: usize = 300;

#[derive(Debug)]
pub(crate) struct AlertPusher {
    target: Target,
    clock: Clock,
    http: reqwest::Client,
    /// Reads credentials and resolves host names.
    worker: Worker,
    counts: watch::Sender<PushCounts>,
    queue: AlertQueue,
    /// Consecutive failed pushes.
    failures: u32,
    /// The next attempt after a failed one, by the monotonic clock.
    retry_at: Duration,
    /// Alertmanager asked for that delay: new alerts wait, too.
    is_held: bool,
}

/// Why a request failed.
#[derive(Debug)]
struct RequestFailure {
    /// Without secrets.
    message: String,
    retry_after: Option<Duration>,
}

impl From<String> for RequestFailure {
    fn from(message: String) -> Self {
        Self {
            message,
            retry_after: None,
        }
    }
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
            http: target.client(Resolver::new(worker.clone()))?,
            target,
            clock,
            worker,
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
            let now = self.clock.now();
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
            let check_at = check_at.unwrap_or(Duration::MAX);
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                () = stop.cancelled() => {}
                () = sleep(check_at.saturating_sub(now.monotonic)) => {}
            }
        }
    }

    /// Sends alerts in one request. A failure while an earlier one waits for its next attempt does not move that.
    async fn push(&mut self, batch: AlertBatch, is_waiting: bool) -> bool {
        let alerts: Vec<_> = batch.alerts().collect();
        let limit = self.target.timing.push_timeout;
        let pushed = timeout(limit, self.post(&alerts)).await;
        let pushed =
            pushed.unwrap_or_else(|_elapsed| Err(format!("no response within {limit:?}").into()));
        self.counts.send_modify(|counts| {
            counts.pushes += 1;
            counts.failures += u64::from(pushed.is_err());
        });
        let now = self.clock.now();
        let alertmanager = self.target.base.as_str();
        let failures = std::mem::take(&mut self.failures);
        if let Err(RequestFailure {
            message,
            retry_after,
        }) = pushed
        {
            if failures == 0 {
                warn!(name: log_id::ALERT_PUSH_FAILED, alertmanager, error = message, "alert push failed");
            }
            self.failures = failures.saturating_add(1);
            self.is_held = retry_after.is_some();
            if !is_waiting || self.is_held {
                let delay = self.target.timing.retry_delay(retry_after, self.failures);
                self.retry_at = now.monotonic.saturating_add(delay);
            }
            return false;
        }
        if batch.has_news || failures > 0 {
            let ended = alerts.iter().filter(|alert| alert.is_resolved).count();
            let firing = alerts.len() - ended;
            info!(name: log_id::ALERTS_PUSHED, alertmanager, firing, ended, "alerts pushed");
        }
        self.retry_at = Duration::ZERO;
        self.queue.accepted(batch, now);
        true
    }

    /// With the credentials. Any status but 2xx is an error.
    async fn post(&self, alerts: &[&Alert]) -> Result<(), RequestFailure> {
        let body = serde_json::to_vec(alerts).map_err(|error| error.to_string())?;
        let request = self.http.post(self.target.alerts.clone());
        let mut request = request.header(CONTENT_TYPE, "application/json").body(body);
        let mut secrets = Secrets::of(&self.target.alerts);
        add_proxy_secrets(&mut secrets);
        if let Some(credentials) = self.target.credentials.clone() {
            let path = credentials.path().display().to_string();
            let read = self.worker.run_while_awaited(move || credentials.header());
            let header = read
                .await
                .ok_or_else(|| format!("{path}: earlier reads of it hang"))?
                .map_err(|why| format!("{path} {why}"))?;
            let value = String::from_utf8_lossy(header.as_bytes());
            secrets.add_header(value.split_once(' ').map_or(&*value, |(_, it)| it));
            request = request.header(AUTHORIZATION, header);
        }
        let sent = request.send().await;
        let mut response = sent.map_err(|error| root_cause(&error.without_url()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let retry_after = retry_after(response.headers(), self.clock.now().wall);
        let body = read_up_to(&mut response, MAX_ERROR_BODY).await;
        Err(RequestFailure {
            message: describe(status, &body, MAX_MESSAGE, &secrets),
            retry_after,
        })
    }
}
