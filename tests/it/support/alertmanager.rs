//! A scripted Alertmanager on a loopback socket, which records the alerts that it receives.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use azure_scheduled_events_exporter::time::Timestamp;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use super::{DEADLINE, Reply, request::Request};

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct FakeAlertmanager {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    accepting: JoinHandle<()>,
}

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
        Self::start("127.0.0.1:0", replies.into_iter().collect(), Reply::ok("")).await
    }

    /// Answers every request with this reply.
    pub(crate) async fn standing(reply: Reply) -> Self {
        Self::start("127.0.0.1:0", VecDeque::new(), reply).await
    }

    /// Answers with 200, on an address that is not the source address of all clients: while it restarts, none of them
    /// can get its port.
    #[cfg_attr(
        not(feature = "soak"),
        expect(dead_code, reason = "the soak test restarts it")
    )]
    pub(crate) async fn restartable() -> Self {
        Self::start("127.0.0.2:0", VecDeque::new(), Reply::ok("")).await
    }

    async fn start(address: &str, script: VecDeque<Reply>, standing: Reply) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            script,
            standing,
            requests: Vec::new(),
            status: Reply::ok(r#"{"cluster":{"status":"ready"}}"#),
            status_requests: Vec::new(),
        }));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self {
            address,
            state,
            accepting,
        }
    }

    /// Closes the port and all connections, and listens again.
    #[cfg_attr(
        not(feature = "soak"),
        expect(dead_code, reason = "the soak test restarts it")
    )]
    pub(crate) async fn restart(&mut self) {
        self.accepting.abort();
        // Ended by the abort: its listener is closed.
        (&mut self.accepting).await.ok();
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accepting = tokio::spawn(accept(listener, Arc::clone(&self.state)));
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The value of `--alertmanager.url`.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers every request with this reply from now on.
    pub(crate) fn now(&self, reply: Reply) {
        self.state.lock().unwrap().standing = reply;
    }

    /// Answers requests for the status with this reply from now on.
    pub(crate) fn status(&self, reply: Reply) {
        self.state.lock().unwrap().status = reply;
    }

    pub(crate) fn status_requests(&self) -> Vec<Request> {
        self.state.lock().unwrap().status_requests.clone()
    }

    /// The requests with alerts.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.lock().unwrap().requests.clone()
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
    pub(crate) fn take_alerts(&self) -> Vec<ReceivedAlert> {
        let requests = std::mem::take(&mut self.state.lock().unwrap().requests);
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

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    // Closed together with the listener.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _peer) = listener.accept().await.unwrap();
        connections.spawn(serve(stream, Arc::clone(&state)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut left = Vec::new();
    while let Some(request) = Request::read(&mut stream, &mut left).await {
        let reply = {
            let mut state = state.lock().unwrap();
            if request.method == "GET" {
                state.status_requests.push(request);
                state.status.clone()
            } else {
                state.requests.push(request);
                let next = state.script.pop_front();
                next.unwrap_or_else(|| state.standing.clone())
            }
        };
        if !reply.send(&mut stream).await {
            return;
        }
    }
}

impl Drop for FakeAlertmanager {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
