//! A webhook receiver that records what Alertmanager sends.

use std::time::Instant;

use serde_json::Value;

use super::{ANY_PORT, Listening, Reply};

/// Alert and receiver of `Alertmanager::until_flushed`.
pub(crate) const BARRIER: &str = "Barrier";
/// The receiver of the example that gets each critical event in addition to people.
pub(crate) const AUTOMATION: &str = "automation";

/// One alert of a notification.
#[derive(Debug, Clone)]
pub(crate) struct Notification {
    /// Seconds since the webhook was started.
    pub(crate) at: f64,
    /// The receiver's name in Alertmanager's configuration.
    pub(crate) receiver: String,
    /// `firing` or `resolved`.
    pub(crate) status: String,
    pub(crate) alert_name: String,
    /// Empty for an alert without an event.
    pub(crate) event_id: String,
    pub(crate) description: String,
}

/// Listens until it is dropped.
pub(crate) struct Webhook {
    pub(crate) address: String,
    listening: Listening<State>,
}

struct State {
    started: Instant,
    received: Vec<Notification>,
}

impl Webhook {
    pub(crate) async fn start() -> Self {
        let state = State {
            started: Instant::now(),
            received: Vec::new(),
        };
        let listening = Listening::start(ANY_PORT, state, |state: &mut State, request| {
            state.add(&request.body);
            Reply::ok("")
        })
        .await;
        Self {
            address: listening.address.to_string(),
            listening,
        }
    }

    /// Every notification but those of [`BARRIER`].
    pub(crate) fn received(&self) -> Vec<Notification> {
        self.by(|receiver| receiver != BARRIER)
    }

    pub(crate) fn barriers(&self) -> Vec<Notification> {
        self.by(|receiver| receiver == BARRIER)
    }

    fn by(&self, is_match: impl Fn(&str) -> bool) -> Vec<Notification> {
        let state = self.listening.state();
        let matching = state.received.iter().filter(|one| is_match(&one.receiver));
        matching.cloned().collect()
    }

    /// Notifications of events to people, by status.
    pub(crate) fn of_events(&self, status: &str) -> Vec<Notification> {
        let mut received = self.by(|receiver| receiver != BARRIER && receiver != AUTOMATION);
        received.retain(|one| !one.event_id.is_empty() && one.status == status);
        received
    }

    /// The number of requests for a receiver. One request can contain several alerts.
    pub(crate) fn requests(&self, receiver: &str) -> usize {
        let mut times: Vec<_> = self
            .by(|one| one == receiver)
            .iter()
            .map(|one| one.at.to_bits())
            .collect();
        times.dedup();
        times.len()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- notifications ----");
            for one in self.received() {
                let Notification {
                    at,
                    receiver,
                    status,
                    alert_name,
                    ..
                } = &one;
                eprintln!(
                    "after {at:.1} s, {receiver}: {status} {alert_name}\n{}",
                    one.description
                );
            }
        }
    }
}

impl State {
    fn add(&mut self, body: &str) {
        let at = self.started.elapsed().as_secs_f64();
        let message: Value = serde_json::from_str(body).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let alerts = message["alerts"].as_array().unwrap().iter();
        self.received.extend(alerts.map(|alert| Notification {
            at,
            receiver: text(&message["receiver"]),
            status: text(&alert["status"]),
            alert_name: text(&alert["labels"]["alertname"]),
            event_id: text(&alert["labels"]["event_id"]),
            description: text(&alert["annotations"]["description"]),
        }));
    }
}
