//! A scripted Alertmanager on a loopback socket, which records the alerts that it receives.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use azure_scheduled_events_exporter::time::Timestamp;
use serde_json::Value;

use super::{
    DEADLINE, Reply,
    listening::{ANY_PORT, Listening, RESTARTABLE},
    request::Request,
};

#[derive(Debug)]
pub(crate) struct FakeAlertmanager(Listening<State>);

#[derive(Debug)]
struct State {
    script: VecDeque<Reply>,
    standing: Reply,
    requests: Vec<Request>,
    /// The answer to a request for the status.
    status: Reply,
    status_requests: Vec<Request>,
}

#[derive(Debug, Clone)]
pub(crate) struct ReceivedAlert {
    pub(crate) labels: Value,
    pub(crate) annotations: Value,
    pub(crate) ends_at: String,
}

impl ReceivedAlert {
    /// The end of an alert that fires is 15 minutes ahead, that of an ended one two and a half.
    pub(crate) fn is_end(&self) -> bool {
        let ahead = Timestamp::now().after(Duration::from_mins(10));
        Timestamp::parse(&self.ends_at).unwrap() < ahead
    }
}

impl FakeAlertmanager {
    /// Answers with these replies, then with 200.
    pub(crate) async fn scripted(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(ANY_PORT, replies.into_iter().collect(), Reply::ok("")).await
    }

    /// Answers with 200 on this address.
    #[cfg(target_os = "linux")]
    pub(crate) async fn at(address: &str) -> Self {
        Self::start(address, VecDeque::new(), Reply::ok("")).await
    }

    /// Answers every request with this reply.
    pub(crate) async fn standing(reply: Reply) -> Self {
        Self::start(ANY_PORT, VecDeque::new(), reply).await
    }

    /// Answers with 200.
    #[cfg_attr(
        not(feature = "soak"),
        expect(dead_code, reason = "the soak test restarts it")
    )]
    pub(crate) async fn restartable() -> Self {
        Self::start(RESTARTABLE, VecDeque::new(), Reply::ok("")).await
    }

    async fn start(address: &str, script: VecDeque<Reply>, standing: Reply) -> Self {
        let state = State {
            script,
            standing,
            requests: Vec::new(),
            status: Reply::ok(r#"{"cluster":{"status":"ready"}}"#),
            status_requests: Vec::new(),
        };
        Self(Listening::start(address, state, State::respond).await)
    }

    /// Closes the port and all connections, and listens again.
    #[cfg_attr(
        not(feature = "soak"),
        expect(dead_code, reason = "the soak test restarts it")
    )]
    pub(crate) async fn restart(&mut self) {
        self.0.restart().await;
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The value of `--alertmanager.url`.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.0.address)
    }

    /// Answers every request with this reply from now on.
    pub(crate) fn now(&self, reply: Reply) {
        self.0.state().standing = reply;
    }

    /// Answers requests for the status with this reply from now on.
    pub(crate) fn status(&self, reply: Reply) {
        self.0.state().status = reply;
    }

    pub(crate) fn status_requests(&self) -> Vec<Request> {
        self.0.state().status_requests.clone()
    }

    /// The requests with alerts.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.0.state().requests.clone()
    }

    /// The alerts of every request so far.
    pub(crate) fn alerts(&self) -> Vec<ReceivedAlert> {
        Self::alerts_of(&self.requests())
    }

    /// The ends of alerts so far.
    pub(crate) fn ends(&self) -> Vec<ReceivedAlert> {
        let mut alerts = self.alerts();
        alerts.retain(ReceivedAlert::is_end);
        alerts
    }

    /// The alerts since the last call, whose requests are forgotten.
    #[cfg_attr(
        not(feature = "soak"),
        expect(dead_code, reason = "the soak test forgets them")
    )]
    pub(crate) fn take_alerts(&self) -> Vec<ReceivedAlert> {
        let requests = std::mem::take(&mut self.0.state().requests);
        Self::alerts_of(&requests)
    }

    fn alerts_of(requests: &[Request]) -> Vec<ReceivedAlert> {
        let alerts = requests.iter().flat_map(|request| {
            let alerts: Vec<Value> = serde_json::from_str(&request.body).unwrap();
            alerts
        });
        alerts
            .map(|alert| ReceivedAlert {
                labels: alert["labels"].clone(),
                annotations: alert["annotations"].clone(),
                ends_at: alert["endsAt"].as_str().unwrap().to_owned(),
            })
            .collect()
    }

    /// Waits for the first alert.
    pub(crate) async fn until_pushed(&self) {
        self.until("an alert is pushed", |it| !it.alerts().is_empty())
            .await;
    }

    /// Waits for a condition.
    pub(crate) async fn until(&self, what: &str, is_met: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        while !is_met(self) {
            let has_timed_out = tokio::time::Instant::now() > deadline;
            assert!(
                !has_timed_out,
                "not within {DEADLINE:?}: {what}: {:#?}",
                self.alerts()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl State {
    fn respond(&mut self, request: Request) -> Reply {
        if request.method == "GET" {
            self.status_requests.push(request);
            return self.status.clone();
        }
        self.requests.push(request);
        let next = self.script.pop_front();
        next.unwrap_or_else(|| self.standing.clone())
    }
}
