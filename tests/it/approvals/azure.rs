//! A simulated Azure that counts its requests, with a metadata service for each VM.

use std::{
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use azure_scheduled_events_exporter::{
    server::{self, Abort, Handler, HandlerResponse, ServerLimits},
    simulator::{Scenario, Simulator, SimulatorSettings, Vm},
    time::Clock,
};
use hyper::{Method, Request, body::Incoming};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{DEADLINE, install_cryptography};

/// A running simulator.
pub(super) struct Azure {
    address: SocketAddr,
    counting: Counting,
    driver: reqwest::Client,
    serving: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    posts: AtomicUsize,
    gets: AtomicUsize,
}

#[derive(Clone)]
struct Counting {
    simulator: Simulator,
    counts: Arc<Counts>,
    /// The name in instance metadata; `None` for that of the simulator.
    vm_name: Option<&'static str>,
}

#[async_trait::async_trait]
impl Handler for Counting {
    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        if request.uri().path().starts_with("/metadata") {
            let is_get = request.method() == Method::GET;
            let count = if is_get {
                &self.counts.gets
            } else {
                &self.counts.posts
            };
            count.fetch_add(1, Ordering::SeqCst);
        }
        match self.vm_name {
            Some(name) if request.uri().path().starts_with("/metadata/instance") => {
                let compute = json!({ "name": name }).to_string();
                Ok(HandlerResponse::new(compute.into()))
            }
            _ => self.simulator.handle(request).await,
        }
    }
}

impl Counting {
    fn serve(self) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let forever = std::future::pending();
            server::serve(listener, self, ServerLimits::default(), forever)
                .await
                .unwrap();
        });
        (address, serving)
    }
}

impl Azure {
    /// Plays these scenarios at this speed.
    pub(super) fn playing(scenarios: &[&str], speed: f64) -> Self {
        install_cryptography();
        let scenarios = scenarios.iter().map(|name| Scenario::named(name).unwrap());
        let settings = SimulatorSettings {
            scenarios: scenarios.collect(),
            speed,
            vm: Vm::new(Some("web_0")),
        };
        let counting = Counting {
            simulator: Simulator::new(settings, Clock::start()),
            counts: Arc::default(),
            vm_name: None,
        };
        let (address, serving) = counting.clone().serve();
        let driver = reqwest::Client::builder().no_proxy().tls_certs_only([]);
        Self {
            address,
            counting,
            driver: driver.timeout(DEADLINE).build().unwrap(),
            serving: vec![serving],
        }
    }

    pub(super) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base URL of the metadata service of this VM.
    pub(super) fn base_of(&mut self, vm_name: &'static str) -> String {
        let counting = Counting {
            vm_name: Some(vm_name),
            ..self.counting.clone()
        };
        let (address, serving) = counting.serve();
        self.serving.push(serving);
        format!("http://{address}")
    }

    /// Requests other than GET to the metadata service.
    pub(super) fn posts(&self) -> usize {
        self.counting.counts.posts.load(Ordering::SeqCst)
    }

    fn gets(&self) -> usize {
        self.counting.counts.gets.load(Ordering::SeqCst)
    }

    /// Waits until this many more GETs have been received.
    pub(super) async fn until_gets(&self, more: usize) {
        let expected = self.gets() + more;
        let deadline = tokio::time::Instant::now() + DEADLINE * 2;
        while self.gets() < expected {
            let has_timed_out = tokio::time::Instant::now() > deadline;
            assert!(
                !has_timed_out,
                "{} of {expected} GETs were received",
                self.gets()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Announces a restart of these VMs, requested by a user.
    pub(super) async fn request_restart(&self, resources: &[&str]) {
        let restart = json!({"scenario": {"events": [{
            "event_type": "Reboot", "event_source": "User", "duration_seconds": -1,
            "notice": "15m", "started_for": "10m", "resources": resources,
        }]}});
        self.command("start", &restart).await;
    }

    async fn command(&self, what: &str, body: &Value) {
        let url = format!("{}/simulator/{what}", self.base());
        let request = self.driver.post(url).body(body.to_string());
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
    }

    /// Waits until the only event has started.
    pub(super) async fn until_started(&self) {
        let url = format!("{}/simulator/state", self.base());
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let answer = self.driver.get(&url).send().await.unwrap();
            let state: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
            if state["events"][0]["event_status"] == "Started" {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{state}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Azure {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}
