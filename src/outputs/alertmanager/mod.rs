//! Pushes the events that name this VM to Alertmanager. The path through Prometheus (scrape, evaluation, `group_wait`)
//! can take longer than the 30 seconds of a Spot eviction.
//!
//! The [`due_alerts`] of a snapshot are pushed when one is new or changed, and at intervals, from a task for each
//! Alertmanager that reads published snapshots and delays neither polls nor the others. `posted_alert` has their format,
//! and `addresses` sends them. A pushed alert has the labels of the same alert of `alerts/scheduled-events.rules.yml`, so that
//! Alertmanager deduplicates the two.
//!
//! Invariants: labels do not change during the life of an event; a failed poll resolves no alert; an alert is resolved
//! after the rules have ended it; what was pushed before changes no alert, only when it is sent.

mod addresses;
mod posted_alert;
mod target;

use std::{
    collections::{BTreeSet, HashMap},
    future,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::addresses::{Addresses, Answer, retry_after};
pub use self::{
    posted_alert::{ClockDifference, json},
    target::{PushTiming, Target},
};
pub use crate::http::client::{
    Credentials,
    tls::{ClientCertificate, TlsFiles},
};
use crate::{
    base::{
        log_id,
        time::{Clock, Moment, MonotonicTime},
        worker::Worker,
    },
    core::snapshot::Snapshot,
    outputs::{
        due_alerts::{DueAlert, Labels, Progress, due_alerts},
        output_counters::OutputCounters,
        schedule::wait_for_change,
    },
};

/// Changes are pushed at most this often.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Time alone changes alerts. While no snapshot is published, they are compared this often.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Pushes alerts to the Alertmanagers of one URL.
#[derive(Debug)]
pub(crate) struct AlertPusher {
    addresses: Arc<Addresses>,
    /// What was pushed last, perhaps in vain.
    pushed: HashMap<Labels, DueAlert>,
    /// From when on a change is pushed.
    changes_at: MonotonicTime,
    /// When all alerts are pushed again.
    again_at: MonotonicTime,
    /// Consecutive failed pushes.
    failures: u32,
    failing: BTreeSet<Option<IpAddr>>,
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
    ) -> Result<Self, String> {
        Ok(Self {
            addresses: Arc::new(Addresses::new(target, worker, clock, counters)?),
            pushed: HashMap::new(),
            changes_at: MonotonicTime::default(),
            again_at: MonotonicTime::default(),
            failures: 0,
            failing: BTreeSet::new(),
        })
    }

    /// Pushes until `stop` is cancelled, then what is new and not sent.
    pub(crate) async fn run(
        mut self,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        stop: CancellationToken,
    ) {
        let addresses = Arc::clone(&self.addresses);
        let asking = async {
            addresses.ask().await;
            future::pending::<()>().await;
        };
        tokio::select! {
            () = self.push_changes(snapshots, stop) => {}
            () = asking => {}
        }
    }

    async fn push_changes(
        &mut self,
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        stop: CancellationToken,
    ) {
        loop {
            let is_last = stop.is_cancelled();
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            let now = self.addresses.clock.now();
            let alerts = due_alerts(&snapshot, &self.addresses.target.labels, now);
            let mut wait = RECHECK_INTERVAL;
            if !alerts.is_empty() {
                let has_news = self.has_news(&alerts);
                // A new alert does not wait for the next attempt: a Spot VM has only seconds.
                let due_at = if has_news {
                    self.again_at.min(self.changes_at)
                } else {
                    self.again_at
                };
                wait = wait.min(due_at - now.monotonic);
                let is_unsent = has_news || self.failures > 0;
                if wait.is_zero() || is_last && is_unsent {
                    self.push(alerts, &snapshot, now).await;
                }
            }
            if is_last || !wait_for_change(&mut snapshots, wait, &stop).await {
                return;
            }
        }
    }

    /// Whether an alert is new or changed since the last push.
    fn has_news(&self, alerts: &[DueAlert]) -> bool {
        let mut alerts = alerts.iter();
        alerts.any(|alert| self.pushed.get(&alert.labels) != Some(alert))
    }

    async fn push(&mut self, due: Vec<DueAlert>, snapshot: &Snapshot, now: Moment) {
        let clocks = self.addresses.clocks();
        let alerts = due.iter().map(|it| json(it, snapshot, clocks, now));
        let alerts: Vec<_> = alerts.collect();
        let answers = self.addresses.post(&alerts).await;
        let failing = self.log_failures(&answers);
        let is_accepted = failing.len() < answers.len();
        if is_accepted && (self.has_news(&due) || !self.failing.is_subset(&failing)) {
            let is_firing = |alert: &&DueAlert| alert.progress == Progress::Firing;
            let firing = due.iter().filter(is_firing).count();
            let (alertmanager, ended) = (&self.addresses.target.name, due.len() - firing);
            info!(name: log_id::ALERTS_PUSHED, alertmanager, firing, ended, "alerts pushed");
        }
        // A failure while an earlier one waits for its next attempt does not move that.
        let is_early = self.failures > 0 && now.monotonic < self.again_at;
        let asked_for = retry_after(&answers);
        let done_at = self.addresses.clock.now().monotonic;
        let timing = &self.addresses.target.timing;
        self.changes_at = now.monotonic + MIN_INTERVAL;
        if failing.is_empty() {
            self.failures = 0;
            self.again_at = done_at + timing.resend_interval;
        } else {
            self.failures = self.failures.saturating_add(1);
            if !is_early || asked_for.is_some() {
                self.again_at = done_at + timing.retry_delay(asked_for, self.failures);
            }
        }
        if asked_for.is_some() && !is_accepted {
            // Changes wait too.
            self.changes_at = self.again_at;
        }
        if self.addresses.clocks() != clocks {
            // The times of these alerts do not hold by the clock of Alertmanager.
            self.again_at = self.changes_at;
        }
        self.failing = failing;
        let pushed = due.into_iter().map(|alert| (alert.labels.clone(), alert));
        self.pushed = pushed.collect();
    }

    /// Logs at which addresses a push fails that did not before. Returns all that fail.
    fn log_failures(&self, answers: &[Answer]) -> BTreeSet<Option<IpAddr>> {
        let target = &self.addresses.target;
        let (alertmanager, proxy) = (target.name.as_str(), target.shown_proxy());
        let failures = answers.iter().filter_map(|answer| {
            let failure = answer.result.as_ref().err()?;
            if !self.failing.contains(&answer.address) {
                let address = self.addresses.shown(answer.address);
                warn!(
                    name: log_id::ALERT_PUSH_FAILED, alertmanager, address, proxy,
                    error = failure, "alert push failed"
                );
            }
            Some(answer.address)
        });
        failures.collect()
    }
}
