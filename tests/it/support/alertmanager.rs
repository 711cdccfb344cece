//! An Alertmanager that takes down what it is told, and answers as it is told.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

use super::{PATIENCE, Reply, request::Request};

/// It listens until it is dropped.
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
}

/// One alert as it came.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) labels: Value,
    pub(crate) ends_at: String,
}

impl FakeAlertmanager {
    /// Answers with these, then takes everything.
    pub(crate) async fn scripted(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(replies.into_iter().collect(), Reply::ok("")).await
    }

    /// Answers always like this.
    pub(crate) async fn standing(reply: Reply) -> Self {
        Self::start(VecDeque::new(), reply).await
    }

    async fn start(script: VecDeque<Reply>, standing: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            script,
            standing,
            requests: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            loop {
                let (mut stream, _peer) = listener.accept().await.unwrap();
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let mut left = Vec::new();
                    while let Some(request) = Request::read(&mut stream, &mut left).await {
                        let reply = {
                            let mut state = shared.lock().unwrap();
                            state.requests.push(request);
                            let next = state.script.pop_front();
                            next.unwrap_or_else(|| state.standing.clone())
                        };
                        if !reply.send(&mut stream).await {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            address,
            state,
            accepting,
        }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What `--alertmanager.url` would be.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on everything is answered like this.
    pub(crate) fn now(&self, reply: Reply) {
        self.state.lock().unwrap().standing = reply;
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.lock().unwrap().requests.clone()
    }

    /// Every alert of every request so far.
    pub(crate) fn told(&self) -> Vec<Told> {
        let requests = self.requests();
        let alerts = requests.iter().flat_map(|request| {
            let alerts: Vec<Value> = serde_json::from_str(&request.body).unwrap();
            alerts
        });
        alerts
            .map(|alert| Told {
                labels: alert["labels"].clone(),
                ends_at: alert["endsAt"].as_str().unwrap().to_owned(),
            })
            .collect()
    }

    /// Waits for it.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !wanted(self) {
            let is_over = tokio::time::Instant::now() > deadline;
            assert!(
                !is_over,
                "it never came to be that {what}: {:#?}",
                self.told()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for FakeAlertmanager {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
