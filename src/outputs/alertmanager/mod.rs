//! Pushes the events that name this VM to Alertmanager. The path through Prometheus (scrape, evaluation, `group_wait`)
//! can take longer than the 30 seconds of a Spot eviction.
//!
//! `alerts` is pure: all alerts of a snapshot at a time. They are pushed when one is new or changed, and at intervals,
//! from a task for each Alertmanager that reads published snapshots and delays neither polls nor the others. `addresses`
//! sends them. A pushed alert has the labels of the same alert of `alerts/scheduled-events.rules.yml`, so that
//! Alertmanager deduplicates the two.
//!
//! Invariants: labels do not change during the life of an event; a failed poll resolves no alert; an alert is resolved
//! after the rules have ended it; what was pushed before changes no alert, only when it is sent.

mod addresses;
pub(crate) mod alerts;
mod target;

use std::{
    collections::{BTreeSet, HashMap},
    future,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub(crate) use self::alerts::ALERT_LABELS;
use self::{
    addresses::{Addresses, Answer},
    alerts::{Labels, Progress},
};
pub use self::{
    alerts::{Alert, ClockDifference, DueAlert, due_alerts},
    target::{PushTiming, Target, TargetError},
};
pub use crate::http::client::{
    Credentials,
    tls::{ClientCertificate, TlsFiles},
};
use crate::{
    base::{
        log_id,
        text::label_value,
        time::{Clock, Moment, MonotonicTime},
        worker::Worker,
    },
    core::snapshot::Snapshot,
    outputs::output_counters::OutputCounters,
};

/// Changes are pushed at most this often.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Time alone changes alerts. While no snapshot is published, they are compared this often.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Alerts of one request.
const MAX_BATCH: usize = 500;

/// Pushes alerts to the Alertmanagers of one URL.
#[derive(Debug)]
pub(crate) struct AlertPusher {
    addresses: Arc<Addresses>,
    counters: Arc<OutputCounters>,
}

/// When the next push is due.
#[derive(Debug, Default)]
struct Schedule {
    /// What was pushed last, perhaps in vain.
    pushed: HashMap<Labels, DueAlert>,
    /// From when on a change is pushed.
    changes_at: MonotonicTime,
    /// When all alerts are pushed again.
    again_at: MonotonicTime,
    /// Consecutive failed pushes.
    failures: u32,
    /// Alertmanager asked for the delay until then: changes wait, too.
    is_held: bool,
    /// The addresses at which the last push failed.
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
    ) -> Result<Self, TargetError> {
        Ok(Self {
            addresses: Arc::new(Addresses::new(target, worker, clock)?),
            counters,
        })
    }

    /// Pushes until `stop` is cancelled, then what is new and not sent.
    pub(crate) async fn run(
        self,
        snapshots: watch::Receiver<Arc<Snapshot>>,
        stop: CancellationToken,
    ) {
        let asking = async {
            self.ask().await;
            future::pending::<()>().await;
        };
        tokio::select! {
            () = self.push_changes(snapshots, stop) => {}
            () = asking => {}
        }
    }

    /// Asks for the status until requests are accepted, so that a wrong setting is known before the first alert.
    async fn ask(&self) {
        let mut failures = 0;
        while !self.is_up() {
            let answers = self.addresses.ask().await;
            self.show_state(&answers);
            let target = &self.addresses.target;
            let (alertmanager, proxy) = (target.name.as_str(), target.shown_proxy());
            for answer in &answers {
                let address = self.addresses.shown(answer.address);
                match &answer.result {
                    Ok(_) => info!(alertmanager, address, proxy, "alertmanager answers"),
                    Err(failure) if failures == 0 => warn!(
                        name: log_id::ALERTMANAGER_NOT_REACHED, alertmanager, address, proxy,
                        error = failure.message, "alertmanager does not answer"
                    ),
                    Err(_) => {}
                }
            }
            failures += 1;
            let delay = target.timing.retry_delay(retry_after(&answers), failures);
            sleep(delay).await;
        }
    }

    async fn push_changes(
        &self,
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        stop: CancellationToken,
    ) {
        let target = &self.addresses.target;
        let mut schedule = Schedule::default();
        loop {
            let is_last = stop.is_cancelled();
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            let now = self.addresses.clock.now();
            let alerts = due_alerts(&snapshot, &target.labels, &target.timing, now);
            let left = schedule.due_at(&alerts) - now.monotonic;
            let wait = if alerts.is_empty() {
                let is_idle = snapshot.events.is_empty() && snapshot.past.is_empty();
                if is_idle {
                    Duration::MAX
                } else {
                    RECHECK_INTERVAL
                }
            } else if is_last && (schedule.failures > 0 || schedule.has_news(&alerts)) {
                Duration::ZERO
            } else {
                left.min(RECHECK_INTERVAL)
            };
            if wait.is_zero() {
                self.push(&mut schedule, alerts, &snapshot, now).await;
            }
            if is_last {
                return;
            }
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                () = stop.cancelled() => {}
                () = sleep(wait) => {}
            }
        }
    }

    async fn push(
        &self,
        schedule: &mut Schedule,
        due: Vec<DueAlert>,
        snapshot: &Snapshot,
        now: Moment,
    ) {
        let clocks = self.addresses.clocks();
        let alerts = due.iter().map(|it| it.alert(snapshot, clocks, now));
        let alerts: Vec<_> = alerts.collect();
        let batches = alerts.chunks(MAX_BATCH).map(<[Alert]>::to_vec).collect();
        let answers = self.addresses.post(batches).await;
        let failing = self.failing(&answers, &schedule.failing);
        let is_accepted = failing.len() < answers.len();
        let is_news = schedule.has_news(&due) || !schedule.failing.is_subset(&failing);
        if is_accepted && is_news {
            let is_firing = |alert: &&DueAlert| alert.progress == Progress::Firing;
            let firing = due.iter().filter(is_firing).count();
            let (alertmanager, ended) = (&self.addresses.target.name, due.len() - firing);
            info!(name: log_id::ALERTS_PUSHED, alertmanager, firing, ended, "alerts pushed");
        }
        // A failure while an earlier one waits for its next attempt does not move that.
        let is_early = schedule.failures > 0 && now.monotonic < schedule.again_at;
        let asked_for = retry_after(&answers).filter(|_| !is_accepted);
        schedule.is_held = asked_for.is_some();
        schedule.changes_at = now.monotonic + MIN_INTERVAL;
        let timing = &self.addresses.target.timing;
        let done_at = self.addresses.clock.now().monotonic;
        if failing.is_empty() {
            schedule.failures = 0;
            schedule.again_at = done_at + timing.resend_interval;
        } else {
            schedule.failures = schedule.failures.saturating_add(1);
            if !is_early || schedule.is_held {
                let delay = timing.retry_delay(asked_for, schedule.failures);
                schedule.again_at = done_at + delay;
            }
        }
        if self.addresses.clocks() != clocks {
            // The times of these alerts do not hold by the clock of Alertmanager.
            schedule.again_at = schedule.changes_at;
        }
        schedule.failing = failing;
        let pushed = due.into_iter().map(|alert| (alert.labels.clone(), alert));
        schedule.pushed = pushed.collect();
    }

    /// Counts a push, and logs where it failed. Returns these addresses.
    fn failing(
        &self,
        answers: &[Answer],
        was: &BTreeSet<Option<IpAddr>>,
    ) -> BTreeSet<Option<IpAddr>> {
        self.show_state(answers);
        let target = &self.addresses.target;
        let (alertmanager, proxy) = (target.name.as_str(), target.shown_proxy());
        let mut failing = BTreeSet::new();
        for answer in answers {
            let Err(failure) = &answer.result else {
                continue;
            };
            failing.insert(answer.address);
            if !was.contains(&answer.address) {
                let address = self.addresses.shown(answer.address);
                warn!(
                    name: log_id::ALERT_PUSH_FAILED, alertmanager, address, proxy,
                    error = failure.message, "alert push failed"
                );
            }
        }
        let mut counts = self.counters.pushes();
        counts.pushes += answers.iter().map(|answer| answer.requests).sum::<u64>();
        counts.failures += failing.len() as u64;
        failing
    }

    /// In the gauge `azure_scheduled_events_receiver_up`.
    fn show_state(&self, answers: &[Answer]) {
        let is_up = answers.iter().any(|answer| answer.result.is_ok());
        self.counters.pushes().receivers.insert(self.label(), is_up);
    }

    fn is_up(&self) -> bool {
        self.counters.pushes().receivers.get(&self.label()) == Some(&true)
    }

    /// The label `receiver`.
    fn label(&self) -> String {
        label_value(&self.addresses.target.name).into_owned()
    }
}

impl Schedule {
    /// Whether an alert is new or changed since the last push.
    fn has_news(&self, alerts: &[DueAlert]) -> bool {
        let mut alerts = alerts.iter();
        alerts.any(|alert| self.pushed.get(&alert.labels) != Some(alert))
    }

    fn due_at(&self, alerts: &[DueAlert]) -> MonotonicTime {
        // A new alert does not wait for the next attempt: a Spot VM has only seconds.
        if !self.is_held && self.has_news(alerts) {
            self.again_at.min(self.changes_at)
        } else {
            self.again_at
        }
    }
}

/// The longest delay that was asked for.
fn retry_after(answers: &[Answer]) -> Option<Duration> {
    let failures = answers
        .iter()
        .filter_map(|answer| answer.result.as_ref().err());
    failures.filter_map(|failure| failure.retry_after).max()
}
