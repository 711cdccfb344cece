//! Pushes alerts to one Alertmanager from a task of its own: all of them when one changes, and at intervals.
//!
//! It reads published snapshots and delays neither polls nor other Alertmanagers. An alert is resolved when its event
//! has ended or another alert has replaced it, never because a poll failed.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::{
    RequestBuilder,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    alert::Alert,
    queue::AlertQueue,
    response::{RequestFailure, read},
    target::{Target, TargetError},
};
use crate::{
    base::{
        log_id,
        text::label_value,
        time::{Clock, Moment, MonotonicTime},
        worker::Worker,
    },
    core::snapshot::Snapshot,
    http::client::{self, resolver::Resolver},
    outputs::output_counters::OutputCounters,
};

/// Time alone changes which rules match. While no snapshot is published, alerts are compared this often.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Alerts of one request.
const MAX_BATCH: usize = 500;

#[derive(Debug)]
pub(crate) struct AlertPusher {
    target: Target,
    clock: Clock,
    http: reqwest::Client,
    /// Reads credentials and resolves host names.
    worker: Worker,
    counters: Arc<OutputCounters>,
    queue: AlertQueue,
    /// It has answered a request.
    is_reached: bool,
    /// Consecutive failed requests.
    failures: u32,
    /// The last push failed, and the log says so.
    is_failing: bool,
    /// When all alerts are sent again.
    resend_at: MonotonicTime,
    /// The next attempt after a failed request.
    retry_at: MonotonicTime,
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
        counters: Arc<OutputCounters>,
    ) -> Result<Self, TargetError> {
        Ok(Self {
            queue: AlertQueue::new(target.timing, target.labels.clone()),
            http: target.client(Resolver::new(worker.clone()))?,
            target,
            clock,
            worker,
            counters,
            is_reached: false,
            failures: 0,
            is_failing: false,
            resend_at: MonotonicTime::default(),
            retry_at: MonotonicTime::default(),
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
            self.queue.update(&snapshot, now);
            if self.is_due(is_last, is_waiting, now) {
                let alerts = self.queue.next(&snapshot, now);
                let is_accepted = self.push(&alerts, is_waiting).await;
                if is_accepted && !alerts.is_empty() && !is_last {
                    continue;
                }
            }
            if is_last {
                return;
            }
            if !self.is_reached && !is_waiting && self.retry_at <= now.monotonic {
                tokio::select! {
                    () = self.ask() => {}
                    () = stop.cancelled() => {}
                }
            }
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                () = stop.cancelled() => {}
                () = sleep(self.until_next_check()) => {}
            }
        }
    }

    fn is_due(&self, is_last: bool, is_waiting: bool, now: Moment) -> bool {
        if is_last {
            self.queue.has_news(now)
        } else if is_waiting {
            // A new alert does not wait: a Spot VM has only seconds.
            !self.is_held && self.queue.has_untried_news(now)
        } else {
            let is_time = now.monotonic >= self.resend_at && !self.queue.is_empty();
            is_time || self.queue.has_news(now)
        }
    }

    fn until_next_check(&self) -> Duration {
        let now = self.clock.now().monotonic;
        let recheck_at = now + RECHECK_INTERVAL;
        let check_at = if self.retry_at > now {
            self.retry_at
        } else if self.queue.is_empty() {
            MonotonicTime::MAX
        } else if self.resend_at > now {
            recheck_at.min(self.resend_at)
        } else {
            recheck_at
        };
        check_at - now
    }

    /// Sends alerts in as many requests as they need, until one fails.
    async fn push(&mut self, alerts: &[Alert], is_waiting: bool) -> bool {
        for batch in alerts.chunks(MAX_BATCH) {
            if !self.push_batch(batch, is_waiting).await {
                return false;
            }
        }
        let now = self.clock.now().monotonic;
        self.resend_at = now + (self.target.timing.resend_interval);
        true
    }

    async fn push_batch(&mut self, alerts: &[Alert], is_waiting: bool) -> bool {
        let pushed = self.within_limit(self.post(alerts)).await;
        let mut counts = self.counters.pushes();
        counts.pushes += 1;
        counts.failures += u64::from(pushed.is_err());
        drop(counts);
        self.show_state(pushed.is_ok());
        let (alertmanager, proxy) = (self.target.name.as_str(), self.target.shown_proxy());
        if let Err(failure) = pushed {
            let was_failing = std::mem::replace(&mut self.is_failing, true);
            if !was_failing {
                // Requests for the status may have failed before.
                self.failures = 0;
                warn!(
                    name: log_id::ALERT_PUSH_FAILED, alertmanager, proxy, error = failure.message,
                    "alert push failed"
                );
            }
            self.failed(&failure, is_waiting && was_failing);
            return false;
        }
        let now = self.clock.now();
        if self.is_failing || self.queue.has_news(now) {
            let ended = alerts.iter().filter(|alert| alert.is_resolved).count();
            let firing = alerts.len() - ended;
            info!(name: log_id::ALERTS_PUSHED, alertmanager, firing, ended, "alerts pushed");
        }
        self.is_reached = true;
        self.is_failing = false;
        self.failures = 0;
        self.retry_at = MonotonicTime::default();
        self.queue.accepted(alerts, now);
        true
    }

    /// In the gauge `azure_scheduled_events_receiver_up`.
    fn show_state(&self, is_up: bool) {
        let name = label_value(&self.target.name).into_owned();
        self.counters.pushes().receivers.insert(name, is_up);
    }

    /// A failure while an earlier one waits for its next attempt does not move that.
    fn failed(&mut self, failure: &RequestFailure, is_waiting: bool) {
        self.failures = self.failures.saturating_add(1);
        self.is_held = failure.retry_after.is_some();
        if !is_waiting || self.is_held {
            let delay = self
                .target
                .timing
                .retry_delay(failure.retry_after, self.failures);
            self.retry_at = self.clock.now().monotonic + delay;
        }
    }

    /// Asks for the status, so that a wrong setting is known before the first alert.
    async fn ask(&mut self) {
        let request = self.http.get(self.target.status.clone());
        let answer = match self.within_limit(self.send(request)).await {
            Ok(body) if !body.trim_ascii_start().starts_with(b"{") => Err(RequestFailure::from(
                "the answer is not the status of an Alertmanager: check --alertmanager.url"
                    .to_owned(),
            )),
            answer => answer,
        };
        self.show_state(answer.is_ok());
        let (alertmanager, proxy) = (self.target.name.as_str(), self.target.shown_proxy());
        let Err(failure) = answer else {
            info!(alertmanager, proxy, "alertmanager answers");
            self.is_reached = true;
            self.failures = 0;
            return;
        };
        if self.failures == 0 {
            warn!(
                name: log_id::ALERTMANAGER_NOT_REACHED, alertmanager, proxy,
                error = failure.message, "alertmanager does not answer"
            );
        }
        self.failed(&failure, false);
    }

    async fn post(&self, alerts: &[Alert]) -> Result<(), RequestFailure> {
        let body = serde_json::to_vec(alerts).map_err(|error| error.to_string())?;
        let request = self.http.post(self.target.alerts.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        self.send(request).await.map(drop)
    }

    async fn within_limit<T>(
        &self,
        request: impl Future<Output = Result<T, RequestFailure>>,
    ) -> Result<T, RequestFailure> {
        let limit = self.target.timing.push_timeout;
        let sent = timeout(limit, request).await;
        sent.unwrap_or_else(|_elapsed| Err(format!("no response within {limit:?}").into()))
    }

    /// Sends a request with the headers and credentials, and returns the beginning of the body. Any status but 2xx is an
    /// error, and so is a web page.
    async fn send(&self, request: RequestBuilder) -> Result<Bytes, RequestFailure> {
        let mut request = request.headers(self.target.headers.clone());
        let mut secrets = client::secrets(&self.target.alerts, &self.target.headers);
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
        read(sent, &secrets, self.clock.now().wall).await
    }
}
