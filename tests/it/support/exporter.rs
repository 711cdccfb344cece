//! The exporter in the process of the test, and a scraper.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use azure_scheduled_events_exporter::{
    CommandError,
    api_version::ApiVersion,
    app, approval,
    config::{Config, ImdsSettings},
    listen::ListenAddress,
    metrics::MetricsOptions,
    snapshot::SeriesScope,
    time::Clock,
    web,
};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{API_VERSION, DEADLINE, ask_until, endpoint, install_cryptography};

/// A running exporter.
#[derive(Debug)]
pub(crate) struct Exporter {
    address: SocketAddr,
    scraper: reqwest::Client,
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), CommandError>>,
}

/// A configuration with the shortest poll interval.
pub(crate) fn settings(imds: &str) -> Config {
    Config {
        listen: vec!["127.0.0.1:0".parse::<ListenAddress>().unwrap()],
        web: web::WebSettings {
            telemetry_path: "/metrics".to_owned(),
            exposed: MetricsOptions {
                scope: SeriesScope::Own,
                resources: false,
                process: false,
            },
            simulator: None,
            serving_lead_time: Duration::from_mins(5),
        },
        imds: ImdsSettings {
            endpoint: endpoint(imds, API_VERSION),
            api_version: ApiVersion::parse(API_VERSION).unwrap(),
            timeout: DEADLINE,
            first_timeout: DEADLINE,
            partial_identity_interval: DEADLINE,
            vm_name: Some(Arc::from("web_0")),
        },
        interval: Duration::from_millis(200),
        approvals: approval::ApprovalPolicy::default(),
        web_config: None,
        state: None,
        otlp: None,
        alertmanagers: Vec::new(),
        textfile: None,
        owner_tag: None,
        // The tests may run on a VM of Hyper-V.
        kvp_pool_file: Some("no/such/file".into()),
    }
}

impl Exporter {
    pub(crate) fn start(settings: Config) -> Self {
        install_cryptography();
        let listeners = app::bind(&settings.listen).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(app::run(
            settings,
            listeners,
            Arc::default(),
            Clock::start(),
            async {
                stopped.await.ok();
            },
        ));
        let scraper = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .timeout(DEADLINE)
            .build()
            .unwrap();
        Self {
            address,
            scraper,
            stop,
            running,
        }
    }

    /// Status and body of a page.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.address);
        let answer = self.scraper.get(url).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The status of the response to any request.
    pub(crate) async fn send(&self, method: &str, path: &str, body: &'static str) -> u16 {
        let url = format!("http://{}{path}", self.address);
        let method = method.parse().unwrap();
        let request = self.scraper.request(method, url).body(body);
        request.send().await.unwrap().status().as_u16()
    }

    pub(crate) async fn metrics(&self) -> Metrics {
        let (status, text) = self.get("/metrics").await;
        assert_eq!(status, 200);
        Metrics(text)
    }

    /// Scrapes until a condition is met.
    pub(crate) async fn until(&self, what: &str, is_met: impl Fn(&Metrics) -> bool) -> Metrics {
        ask_until(what, || self.metrics(), is_met).await
    }

    /// Aborts it at any point.
    pub(crate) async fn kill(self) {
        self.running.abort();
        assert!(self.running.await.unwrap_err().is_cancelled());
    }

    /// Stops it; fails on an error.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        drop(self.scraper);
        tokio::time::timeout(DEADLINE, self.running)
            .await
            .expect("the exporter does not stop")
            .unwrap()
            .unwrap();
    }
}

pub(crate) struct Metrics(pub(crate) String);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Metrics {
    /// The value of a series: name and labels as in the exposition.
    pub(crate) fn value(&self, series: &str) -> Option<f64> {
        self.0
            .lines()
            .filter_map(|line| line.rsplit_once(' '))
            .find(|(name, _)| *name == series)
            .map(|(_, value)| value.parse().unwrap())
    }

    /// The series of events except countdowns, the number of pending events and the incarnation.
    pub(crate) fn of_events(&self) -> Vec<&str> {
        self.0
            .lines()
            .filter(|line| {
                line.starts_with("azure_scheduled_event_")
                    || line.starts_with("azure_scheduled_events_pending")
                    || line.starts_with("azure_scheduled_events_document_incarnation")
            })
            .filter(|line| !line.contains("_countdown_seconds") && !line.contains("_priority{"))
            .collect()
    }

    /// The number of failed requests by reason.
    pub(crate) fn failures(&self, reason: &str) -> f64 {
        let family = "azure_scheduled_events_imds_request_failures_total";
        self.value(&format!("{family}{{reason=\"{reason}\"}}"))
            .unwrap()
    }

    /// Whether the last poll succeeded.
    pub(crate) fn is_up(&self) -> bool {
        self.value("azure_scheduled_events_up") == Some(1.0)
    }
}
