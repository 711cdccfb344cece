//! The path of an alert: a simulated Azure, Prometheus with the rules of `alerts/`, Alertmanager with its example.

use std::{
    fmt::Write as _,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

use super::exporter::Exporter;
use super::webhook::{AUTOMATION, BARRIER, Webhook};
use super::{
    ANY_PORT, Daemon, Listening, Prometheus, Reply, client, get, samples, wait_until,
    wait_until_for,
};

/// An exporter resolves an alert four minutes after the end of its event.
pub(crate) const NOTIFICATION_DEADLINE: Duration = Duration::from_mins(5);
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/alerts");
const EXAMPLE: &str = include_str!("../../../alerts/alertmanager.example.yml");
/// Waits of the example, and those of most tests.
pub(crate) const WAITS: [(&str, &str); 5] = [
    ("group_interval: 1m\n", "group_interval: 2s\n"),
    ("group_interval: 15s\n", "group_interval: 2s\n"),
    ("group_wait: 1m\n", "group_wait: 1s\n"),
    ("group_wait: 10s\n", "group_wait: 1s\n"),
    ("group_wait: 30s\n", "group_wait: 1s\n"),
];

/// Alertmanager, routed as `alerts/alertmanager.example.yml`, and the webhook that receives its notifications.
pub(crate) struct Alertmanager {
    pub(crate) webhook: Webhook,
    pub(crate) address: String,
    http: reqwest::Client,
    daemon: Daemon,
}

impl Alertmanager {
    /// The example's routes and inhibitions with these waits, and the webhook for every receiver but `nobody`.
    pub(crate) async fn start(waits: &[(&str, &str)], program: &Path, folder: &Path) -> Self {
        let mut alertmanager = Self::launch(waits, program, folder, Ipv4Addr::LOCALHOST, &[]).await;
        let ready = format!("{}/-/ready", alertmanager.url());
        wait_until("Alertmanager is ready", async || {
            alertmanager.daemon.assert_running();
            get(&alertmanager.http, &ready).await
        })
        .await;
        alertmanager
    }

    /// [`Self::start`], over TLS on this address and with the settings of a `--web.config.file`.
    pub(crate) async fn start_with_web_config(
        program: &Path,
        folder: &Path,
        ip: Ipv4Addr,
        web: &str,
    ) -> Self {
        fs::write(folder.join("web.yml"), web).unwrap();
        let flag = format!("--web.config.file={}", folder.join("web.yml").display());
        Self::launch(&WAITS, program, folder, ip, &[flag]).await
    }

    /// Returns once it listens.
    async fn launch(
        waits: &[(&str, &str)],
        program: &Path,
        folder: &Path,
        ip: Ipv4Addr,
        flags: &[String],
    ) -> Self {
        let webhook = Webhook::start().await;
        let path = folder.join("alertmanager.yml");
        fs::write(&path, config(&webhook.address, waits)).unwrap();
        let mut args = vec![
            format!("--config.file={}", path.display()),
            format!("--storage.path={}", folder.join("alertmanager").display()),
            format!("--web.listen-address={ip}:0"),
            "--cluster.listen-address=".to_owned(),
        ];
        args.extend_from_slice(flags);
        let mut daemon = Daemon::start("alertmanager", program, args, folder);
        let address = daemon.listening_on(ip).await.to_string();
        Self {
            webhook,
            address,
            http: client(),
            daemon,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until Alertmanager has flushed every group after all that it has received so far.
    ///
    /// Adds alerts to a group with the same interval, one after each notification: the third is sent two intervals
    /// after the first. A notification that is due in any other group is sent before it.
    pub(crate) async fn until_flushed(&self) {
        for number in ["1", "2", "3"] {
            let alert = json!([{
                "labels": { "alertname": BARRIER, "number": number },
                "annotations": { "description": number },
            }]);
            let request = self.http.post(format!("{}/api/v2/alerts", self.url()));
            let request = request.header("content-type", "application/json");
            let response = request.body(alert.to_string()).send().await.unwrap();
            assert!(response.status().is_success(), "{response:?}");
            wait_until("Alertmanager flushes", async || {
                let barriers = self.webhook.barriers();
                barriers
                    .iter()
                    .any(|one| one.description == number)
                    .then_some(())
            })
            .await;
        }
    }

    /// Waits until an alert of an event is active.
    pub(crate) async fn until_active(&self) {
        let url = format!("{}/api/v2/alerts", self.url());
        wait_until("an alert of an event", async || {
            let alerts: Value = serde_json::from_str(&get(&self.http, &url).await?).unwrap();
            let mut labels = alerts.as_array()?.iter().map(|alert| &alert["labels"]);
            labels
                .any(|labels| labels["event_id"].is_string())
                .then_some(())
        })
        .await;
    }

    /// Waits for this many notifications of events.
    pub(crate) async fn until_notified(&self, status: &str, count: usize) {
        let what = format!("{count} {status} notifications");
        wait_until_for(NOTIFICATION_DEADLINE, &what, async || {
            let found = self.webhook.of_events(status).len();
            (found >= count)
                .then_some(())
                .ok_or_else(|| format!("{found} so far"))
        })
        .await;
    }
}

/// A proxy for the pushes to an Alertmanager, which answers 503 while it is closed.
pub(crate) struct Gate {
    pub(crate) is_closed: bool,
    alertmanager: String,
}

impl Gate {
    pub(crate) async fn start(alertmanager: &Alertmanager) -> Listening<Self> {
        let gate = Self {
            is_closed: false,
            alertmanager: alertmanager.address.clone(),
        };
        Listening::start(ANY_PORT, gate, |gate: &mut Self, request| {
            if gate.is_closed {
                return Reply::http("503 Service Unavailable", &[], "");
            }
            if request.body.is_empty() {
                // The request for the status.
                return Reply::http("403 Forbidden", &[], "");
            }
            let head =
                "POST /api/v2/alerts HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length";
            let length = request.body.len();
            let mut stream = TcpStream::connect(&gate.alertmanager).unwrap();
            write!(stream, "{head}: {length}\r\n\r\n{}", request.body).unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            assert!(response.contains(" 200 OK\r\n"), "{response}");
            Reply::ok("")
        })
        .await
    }
}

fn config(webhook: &str, waits: &[(&str, &str)]) -> String {
    let (routes, _receivers) = EXAMPLE.split_once("\nreceivers:\n").unwrap();
    let mut config = routes.to_owned();
    for (example, short) in waits {
        assert!(config.contains(example), "the example has no {example}");
        config = config.replace(example, short);
    }
    let barrier = format!(
        "  routes:\n    - matchers: [alertname=\"{BARRIER}\"]\n      group_by: [alertname]\n      \
         group_wait: 0s\n      group_interval: 2s\n      receiver: {BARRIER}\n"
    );
    config = config.replacen("  routes:\n", &barrier, 1);
    config.push_str("\nreceivers:\n  - name: nobody\n");
    for receiver in [
        "mail",
        "chat",
        "pager-and-chat",
        "shop",
        AUTOMATION,
        BARRIER,
    ] {
        writeln!(
            config,
            "  - name: {receiver}\n    webhook_configs: [{{ url: 'http://{webhook}/' }}]"
        )
        .unwrap();
    }
    config
}

impl Prometheus {
    /// With the rules of `alerts/`, once it has scraped every target.
    pub(crate) async fn with_rules(
        program: &Path,
        seconds: u32,
        targets: &[&Exporter],
        alertmanager: &Alertmanager,
        folder: &Path,
    ) -> Self {
        write_rules(folder, targets.len() == 1);
        let targets: Vec<String> = targets
            .iter()
            .map(|it| format!("'{}'", it.address))
            .collect();
        let config = format!(
            "global: {{ scrape_interval: {seconds}s, scrape_timeout: {seconds}s, evaluation_interval: {seconds}s }}\n\
             rule_files: ['rules/*.rules.yml']\n\
             scrape_configs:\n- job_name: azure-scheduled-events\n  static_configs:\n  - targets: [{}]\n\
             alerting:\n  alertmanagers:\n  - static_configs:\n    - targets: ['{}']\n",
            targets.join(","),
            alertmanager.address,
        );
        let mut prometheus = Self::start(program, &config, &[], folder).await;
        let all = format!("sum(up) == {}", targets.len());
        prometheus.until(&all).await;
        prometheus
    }

    /// Waits until every group of rules without an interval of its own has been evaluated three more times.
    pub(crate) async fn until_evaluated(&mut self) {
        let what = "the number of evaluations";
        let before = wait_until(what, async || self.evaluations().await).await;
        assert!(!before.is_empty(), "no rules");
        wait_until("three evaluations of the rules", async || {
            let now = self.evaluations().await?;
            let is_done = before
                .iter()
                .zip(&now)
                .all(|(then, now)| *now >= then + 3.0);
            is_done.then_some(())
        })
        .await;
    }

    /// The number of evaluations of each group without an interval of its own.
    async fn evaluations(&mut self) -> Option<Vec<f64>> {
        self.daemon.assert_running();
        let url = format!("http://{}/metrics", self.address);
        let text = get(&client(), &url).await?;
        let of_groups = |name: &str| -> Vec<f64> {
            let found = samples(&text).into_iter();
            let found = found.filter(|sample| sample.series.name == name);
            found.map(|sample| sample.value).collect()
        };
        // In the same order.
        let intervals = of_groups("prometheus_rule_group_interval_seconds");
        let evaluations = of_groups("prometheus_rule_group_iterations_total");
        assert_eq!(intervals.len(), evaluations.len());
        let shortest = intervals.iter().copied().reduce(f64::min)?;
        let groups = intervals.into_iter().zip(evaluations);
        let groups = groups.filter(|(interval, _)| *interval <= shortest);
        Some(groups.map(|(_, evaluations)| evaluations).collect())
    }
}

/// Copies the rules. If `is_hasty`, `AzureScheduledEventsExporterDown` fires after 3 seconds rather than 10 minutes.
///
/// With many exporters on a busy machine, one may not answer for 3 seconds although nothing is wrong.
fn write_rules(folder: &Path, is_hasty: bool) {
    let copies = folder.join("rules");
    fs::create_dir(&copies).unwrap();
    for name in ["scheduled-events.rules.yml", "exporter-health.rules.yml"] {
        let mut text = fs::read_to_string(Path::new(RULES).join(name)).unwrap();
        if is_hasty {
            text = text.replace("for: 10m\n", "for: 3s\n");
        }
        fs::write(copies.join(name), text).unwrap();
    }
}

impl Exporter {
    /// Waits until its log says that so many alerts have ended, and that they were resolved later.
    pub(crate) async fn until_resolved(&self, alerts: u32) {
        wait_until_for(NOTIFICATION_DEADLINE, "the exporter resolves", async || {
            let log = self.log();
            let counts = log.split(" ended=").skip(1);
            let counts =
                counts.filter_map(|rest| rest.split_whitespace().next()?.parse::<u32>().ok());
            let found: u32 = counts.sum();
            (found >= 2 * alerts)
                .then_some(())
                .ok_or_else(|| format!("{found} so far"))
        })
        .await;
    }
}
