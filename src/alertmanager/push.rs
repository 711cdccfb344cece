//! Pushes alerts to one Alertmanager from a task of its own: immediately when they change, then at intervals.
//!
//! It reads published snapshots and delays neither polls nor other Alertmanagers. An alert is resolved when its event has
//! ended or another alert has replaced it, never because a poll failed.

use std::{collections::BTreeMap, sync::Arc};

use reqwest::header::CONTENT_TYPE;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    alert::{Alert, Labels, RESOLVED_RETENTION, alerts},
    target::{Secret, SetupError, Target},
};
use crate::{
    outbound::{
        error::root_cause,
        http::{describe, read_up_to},
        resolver::Resolver,
        url::Secrets,
    },
    snapshot::{PushCounts, Snapshot},
    time::{Clock, Timestamp},
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
    /// The alerts that this Alertmanager accepted last.
    sent: BTreeMap<Labels, Alert>,
    is_failing: bool,
}

impl Pusher {
    /// A cryptography provider must be installed in the process.
    ///
    /// # Errors
    /// When a file cannot be read, or the system has no certificate authorities or no thread left.
    pub(crate) fn new(
        target: Target,
        clock: Clock,
        counts: watch::Sender<PushCounts>,
    ) -> Result<Self, SetupError> {
        let worker = Worker::start("alertmanager")?;
        Ok(Self {
            http: target.client(Resolver::new(worker.clone()))?,
            worker,
            target,
            clock,
            counts,
            sent: BTreeMap::new(),
            is_failing: false,
        })
    }

    /// Pushes until `stop` is cancelled, then once more if there are unsent changes.
    pub(crate) async fn run(
        mut self,
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        stop: CancellationToken,
    ) {
        let mut next_push = Instant::now();
        loop {
            let is_last = stop.is_cancelled();
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            let now = self.clock.now().wall;
            let alerts = self.alerts_to_send(&snapshot, now);
            let is_changed = self.is_changed(&alerts);
            let is_due = !alerts.is_empty() && next_push <= Instant::now();
            if is_due && !is_last || is_changed && (is_last || !self.is_failing) {
                let resend_interval = self.target.timing.resend_interval(&snapshot, &alerts, now);
                let delay = if self.push(alerts, is_changed).await {
                    resend_interval
                } else {
                    self.target.timing.retry_interval
                };
                next_push = Instant::now() + delay;
                if !is_last {
                    continue;
                }
            }
            if is_last {
                return;
            }
            let has_alerts = !self.sent.is_empty() || is_changed;
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                () = stop.cancelled() => {}
                () = sleep_until(next_push), if has_alerts => {}
            }
        }
    }

    /// The alerts of the snapshot, and resolutions of sent alerts that are no longer among them.
    fn alerts_to_send(&mut self, snapshot: &Snapshot, now: Timestamp) -> BTreeMap<Labels, Alert> {
        let mut to_send: BTreeMap<_, _> = alerts(snapshot, now)
            .into_iter()
            .map(|alert| (alert.labels.clone(), alert))
            .collect();
        self.sent.retain(|labels, sent| {
            if to_send.contains_key(labels) {
                return true;
            }
            if sent.is_resolved {
                return now.saturating_since(sent.ends_at) < RESOLVED_RETENTION;
            }
            let id = labels.get("event_id").map(String::as_str);
            let mut events = snapshot.events.iter();
            events.any(|tracked| Some(tracked.event.id.as_str()) == id)
        });
        for (labels, sent) in &self.sent {
            if !to_send.contains_key(labels) {
                to_send.insert(labels.clone(), sent.clone().resolved(now));
            }
        }
        to_send
    }

    fn is_changed(&self, alerts: &BTreeMap<Labels, Alert>) -> bool {
        alerts.iter().any(|(labels, alert)| {
            let sent = self.sent.get(labels);
            sent.is_none_or(|sent| sent.is_resolved != alert.is_resolved)
        })
    }

    /// Sends all alerts in one request; true if Alertmanager accepted them.
    async fn push(&mut self, alerts: BTreeMap<Labels, Alert>, is_changed: bool) -> bool {
        let push_timeout = self.target.timing.push_timeout;
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
                if is_changed || was_failing {
                    let resolved = alerts.values().filter(|alert| alert.is_resolved).count();
                    let firing = alerts.len() - resolved;
                    info!(alertmanager, firing, resolved, "alerts pushed");
                }
                self.sent.extend(alerts);
            }
        }
        !failed
    }

    async fn post(&self, alerts: &BTreeMap<Labels, Alert>) -> Result<(), String> {
        let alerts: Vec<&Alert> = alerts.values().collect();
        let body = serde_json::to_vec(&alerts).map_err(|error| error.to_string())?;
        let mut request = self
            .http
            .post(self.target.alerts.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let mut secrets = Secrets::of(&self.target.alerts);
        if let Some(credentials) = self.target.credentials.clone() {
            let path = credentials.path().display().to_string();
            let read = self.worker.run_while_awaited(move || credentials.read());
            let secret = read
                .await
                .ok_or_else(|| format!("{path}: earlier reads of it hang"))?
                .map_err(|why| format!("{path} {why}"))?;
            request = match secret {
                Secret::Basic(user, password) => {
                    secrets.add(&password);
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
