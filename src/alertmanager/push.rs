//! Tells one Alertmanager what is to be told, in a task of its own: at once when that changes, again every half a minute,
//! and within five seconds when a push failed or an end is fresh.
//!
//! It reads pictures and hands back values. It can delay no poll and no other Alertmanager, and it ends an alert only
//! because its event is over or because another alert tells of it now, never because a poll failed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use reqwest::header::CONTENT_TYPE;
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Instant, sleep_until, timeout},
};
use tracing::{info, warn};

use super::{
    alert::{Alert, FAREWELL, Labels, alerts},
    target::{Secret, SetupError, Target, root_cause},
};
use crate::{
    snapshot::{PushCounts, Snapshot},
    time::{Clock, Timestamp},
};

/// From one push of what goes on to the next.
const AGAIN: Duration = Duration::from_secs(30);
/// The same while polls have failed for longer than [`BLIND`]; less than the lease of an alert.
const AGAIN_BLIND: Duration = Duration::from_mins(10);
const BLIND: Duration = Duration::from_mins(1);
/// The same for an end of which Prometheus may not have heard yet: if it says meanwhile that the event goes on,
/// Alertmanager believes it, until it is told the end again.
const AGAIN_OVER: Duration = Duration::from_secs(5);
/// Prometheus hears of an end so late: its default scrape interval and its default evaluation interval.
const UNHEARD: Duration = Duration::from_mins(2);
/// From a failed push to the next: with [`PATIENCE`], one begins every five seconds at least.
const RETRY: Duration = Duration::from_secs(1);
/// What Alertmanager has for one push.
const PATIENCE: Duration = Duration::from_secs(4);
/// The most that is read of an answer that explains a refusal.
const MAX_EXPLAINED: usize = 300;

/// Pushes to one Alertmanager.
#[derive(Debug)]
pub struct Pusher {
    target: Target,
    http: reqwest::Client,
    clock: Clock,
    counts: watch::Sender<PushCounts>,
    /// The last word on each alert that this Alertmanager took.
    told: BTreeMap<Labels, Alert>,
    is_failing: bool,
}

impl Pusher {
    /// For one Alertmanager. A provider of cryptography must have been installed in the process before.
    ///
    /// # Errors
    /// When it could never be reached: a file that cannot be read, no certificate authorities.
    pub fn new(
        target: Target,
        clock: Clock,
        counts: watch::Sender<PushCounts>,
    ) -> Result<Self, SetupError> {
        Ok(Self {
            http: target.client()?,
            target,
            clock,
            counts,
            told: BTreeMap::new(),
            is_failing: false,
        })
    }

    /// Tells until it is stopped, and then once more if there is something that was not told yet.
    pub async fn run(
        mut self,
        mut snapshots: watch::Receiver<Arc<Snapshot>>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut due = Instant::now();
        loop {
            let is_last = *stopped.borrow_and_update();
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            let wanted = self.wanted(&snapshot, self.clock.now().wall);
            let is_news = self.is_news(&wanted);
            let is_due = !wanted.is_empty() && due <= Instant::now();
            if is_due && !is_last || is_news && (is_last || !self.is_failing) {
                let until_next = pause(&snapshot, &wanted, self.clock.now().wall);
                let pause = if self.push(wanted, is_news).await {
                    until_next
                } else {
                    RETRY
                };
                due = Instant::now() + pause;
                if !is_last {
                    continue;
                }
            }
            if is_last {
                return;
            }
            let has_work = !self.told.is_empty() || is_news;
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                changed = stopped.changed() => if changed.is_err() { return },
                () = sleep_until(due), if has_work => {}
            }
        }
    }

    /// What is to be told now: what the picture says, and the end of what it says no longer of an event that it has.
    fn wanted(&mut self, snapshot: &Snapshot, now: Timestamp) -> Vec<Alert> {
        let mut wanted = alerts(snapshot, now);
        self.told.retain(|labels, told| {
            if wanted.iter().any(|alert| alert.labels == *labels) {
                return true;
            }
            if told.is_over {
                return now.saturating_since(told.ends_at) < FAREWELL;
            }
            let id = labels.get("event_id");
            snapshot
                .events
                .iter()
                .any(|tracked| Some(tracked.event.id.as_str()) == id.map(String::as_str))
        });
        for (labels, told) in &self.told {
            if !wanted.iter().any(|alert| alert.labels == *labels) {
                let mut last = told.clone();
                if !last.is_over {
                    last.is_over = true;
                    last.ends_at = now.max(last.starts_at);
                }
                wanted.push(last);
            }
        }
        wanted
    }

    fn is_news(&self, wanted: &[Alert]) -> bool {
        wanted.iter().any(|alert| {
            self.told
                .get(&alert.labels)
                .is_none_or(|told| told.is_over != alert.is_over)
        })
    }

    /// One push of all; says whether it was taken.
    async fn push(&mut self, wanted: Vec<Alert>, is_news: bool) -> bool {
        let pushed = timeout(PATIENCE, self.post(&wanted))
            .await
            .unwrap_or_else(|_elapsed| Err(format!("no answer within {PATIENCE:?}")));
        let failed = pushed.is_err();
        self.counts.send_modify(|counts| {
            counts.pushes += 1;
            counts.failures += u64::from(failed);
        });
        let alertmanager = self.target.base.as_str();
        let was_failing = std::mem::replace(&mut self.is_failing, failed);
        match pushed {
            Err(error) if !was_failing => {
                warn!(
                    alertmanager,
                    error, "alerts cannot be pushed: trying again every few seconds"
                );
            }
            Err(_) => {}
            Ok(()) => {
                if is_news || was_failing {
                    let over = wanted.iter().filter(|alert| alert.is_over).count();
                    let firing = wanted.len() - over;
                    info!(alertmanager, firing, over, "alerts pushed");
                }
                self.told.extend(
                    wanted
                        .into_iter()
                        .map(|alert| (alert.labels.clone(), alert)),
                );
            }
        }
        !failed
    }

    async fn post(&self, wanted: &[Alert]) -> Result<(), String> {
        let body = serde_json::to_vec(wanted).map_err(|error| error.to_string())?;
        let mut request = self
            .http
            .post(self.target.alerts.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        if let Some(credentials) = self.target.credentials.clone() {
            let path = credentials.path().display().to_string();
            let secret = spawn_blocking(move || credentials.read())
                .await
                .map_err(|error| error.to_string())?
                .map_err(|why| format!("{path} {why}"))?;
            request = match secret {
                Secret::Basic(user, password) => request.basic_auth(user, Some(password)),
                Secret::Bearer(token) => request.bearer_auth(token),
            };
        }
        let answer = request.send().await.map_err(|error| root_cause(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        Err(format!(
            "it answers {status}: {}",
            explanation(answer).await
        ))
    }
}

/// How long what was told need not be told again. While nothing is known anew, seldom: another VM that sees the end of
/// the same event is not contradicted then, and yet no alert ends for the fault of IMDS.
fn pause(snapshot: &Snapshot, told: &[Alert], now: Timestamp) -> Duration {
    let is_unheard = |alert: &Alert| alert.is_over && now.saturating_since(alert.ends_at) < UNHEARD;
    let blind_for = snapshot
        .health
        .failure
        .as_ref()
        .map(|failure| now.saturating_since(failure.since));
    if blind_for.is_some_and(|blind_for| blind_for > BLIND) {
        AGAIN_BLIND
    } else if told.iter().any(is_unheard) {
        AGAIN_OVER
    } else {
        AGAIN
    }
}

/// The beginning of what Alertmanager says about a refusal.
async fn explanation(mut answer: reqwest::Response) -> String {
    let mut read = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        read.extend_from_slice(&chunk);
        if read.len() >= MAX_EXPLAINED {
            break;
        }
    }
    let text = String::from_utf8_lossy(&read);
    let text: String = text
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_EXPLAINED)
        .collect();
    text
}
