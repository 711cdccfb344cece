//! Pushes alerts to one Alertmanager from a task of its own: each one immediately when it changes, then at intervals.
//!
//! It reads published snapshots and delays neither polls nor other Alertmanagers. An alert is resolved when its event
//! has ended or another alert has replaced it, never because a poll failed.

use std::{future::pending, sync::Arc, time::Duration};

use reqwest::header::CONTENT_TYPE;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    alert::Alert,
    queue::{AlertBatch, AlertQueue},
    target::{Secret, SetupError, Target},
};
use crate::{
    outbound::{
        error::root_cause,
        http::{add_proxy_secrets, describe, read_up_to},
        resolver::Resolver,
        url::Secrets,
    },
    snapshot::{PushCounts, Snapshot},
    time::Clock,
    worker::Worker,
};

/// Bytes that are read of a response that explains an error.
const MAX_ERROR_BODY: usize = 4 << 10;
/// Characters of it that are logged.
const MAX_MESSAGE: usize = 300;

#[derive(Debug)]
pub(crate) struct Pusher {
    target: Target,
    http: reqwest::Client,
    /// Reads credentials and resolves host names.
    worker: Worker,
    clock: Clock,
    counts: watch::Sender<PushCounts>,
    queue: AlertQueue,
    is_failing: bool,
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
            http: target.client(Resolver::new(worker.clone()))?,
            worker,
            queue: AlertQueue::new(target.timing),
            target,
            clock,
            counts,
            is_failing: false,
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
            let now = self.clock.now();
            let batch = if is_last || retry_at <= now.monotonic {
                self.queue.next(&snapshot, now, is_last)
            } else {
                AlertBatch::default()
            };
            self.report_overflow();
            if !batch.is_empty() {
                let is_accepted = self.push(batch).await;
                if !is_accepted {
                    let delay = self.target.timing.retry_interval;
                    retry_at = self.clock.now().monotonic.saturating_add(delay);
                }
                if is_accepted || !is_last {
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
            let alertmanager = self.target.base.as_str();
            warn!(
                alertmanager,
                skipped, "too many alerts: some are not pushed"
            );
        }
    }

    /// Sends alerts in one request; true if Alertmanager accepted them.
    async fn push(&mut self, batch: AlertBatch) -> bool {
        let push_timeout = self.target.timing.push_timeout;
        let alerts: Vec<_> = batch.alerts().collect();
        let pushed = timeout(push_timeout, self.post(&alerts))
            .await
            .unwrap_or_else(|_elapsed| Err(format!("no response within {push_timeout:?}")));
        let failed = pushed.is_err();
        self.counts.send_modify(|counts| {
            counts.pushes += 1;
            counts.failures += u64::from(failed);
        });
        let alertmanager = self.target.base.as_str();
        let was_failing = std::mem::replace(&mut self.is_failing, failed);
        match pushed {
            Err(error) if !was_failing => warn!(alertmanager, error, "alert push failed"),
            Err(_) => {}
            Ok(()) => {
                if batch.has_news || was_failing {
                    let resolved = alerts.iter().filter(|alert| alert.is_resolved).count();
                    let firing = alerts.len() - resolved;
                    info!(alertmanager, firing, resolved, "alerts pushed");
                }
                self.queue.accepted(batch, self.clock.now());
            }
        }
        !failed
    }

    async fn post(&self, alerts: &[&Alert]) -> Result<(), String> {
        let body = serde_json::to_vec(alerts).map_err(|error| error.to_string())?;
        let mut request = self
            .http
            .post(self.target.alerts.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let mut secrets = Secrets::of(&self.target.alerts);
        add_proxy_secrets(&mut secrets);
        if let Some(credentials) = self.target.credentials.clone() {
            let path = credentials.path().display().to_string();
            let read = self.worker.run_while_awaited(move || credentials.read());
            let secret = read
                .await
                .ok_or_else(|| format!("{path}: earlier reads of it hang"))?
                .map_err(|why| format!("{path} {why}"))?;
            request = match secret {
                Secret::Basic(user, password) => {
                    secrets.add_basic(&user, &password);
                    request.basic_auth(user, Some(password))
                }
                Secret::Bearer(token) => {
                    secrets.add(&token);
                    request.bearer_auth(token)
                }
            };
        }
        let sent = request.send().await;
        let mut response = sent.map_err(|error| root_cause(&error.without_url()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let body = read_up_to(&mut response, MAX_ERROR_BODY).await;
        Err(describe(status, &body, MAX_MESSAGE, &secrets))
    }
}

/// Without a duration, never ready.
async fn sleep_if_some(duration: Option<Duration>) {
    match duration {
        Some(duration) => sleep(duration).await,
        None => pending().await,
    }
}
