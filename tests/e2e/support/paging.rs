//! The way of a page, of real parts: a simulated Azure, Prometheus with our rules, Alertmanager with our example.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::exporter::Exporter;
use super::webhook::Webhook;
use super::{Daemon, client, free_port, get, wait_until};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/alerts");
const EXAMPLE: &str = include_str!("../../../alerts/alertmanager.example.yml");

/// Alertmanager, routed as `alerts/alertmanager.example.yml` says, and who is told by it.
pub(crate) struct Pager {
    pub(crate) webhook: Webhook,
    pub(crate) address: String,
    _alertmanager: Daemon,
}

impl Pager {
    /// The example's routes and inhibitions with a webhook for every receiver that tells anybody. Later notifications of
    /// a group come after 5 s rather than a minute, and those of the exporters' health after 1 s.
    pub(crate) async fn start(program: &Path, folder: &Path) -> Self {
        let webhook = Webhook::start().await;
        let (routes, _receivers) = EXAMPLE.split_once("\nreceivers:\n").unwrap();
        for expected in ["group_interval: 1m\n", "group_wait: 1m\n"] {
            assert!(routes.contains(expected), "the example has no {expected}");
        }
        let mut config = routes
            .replace("group_interval: 1m\n", "group_interval: 5s\n")
            .replace("group_wait: 1m\n", "group_wait: 1s\n");
        config.push_str("\nreceivers:\n  - name: nobody\n");
        for receiver in ["mail", "chat", "pager-and-chat"] {
            let url = format!("http://{}/", webhook.address);
            writeln!(
                config,
                "  - name: {receiver}\n    webhook_configs: [{{ url: '{url}' }}]"
            )
            .unwrap();
        }
        let path = folder.join("alertmanager.yml");
        fs::write(&path, config).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let args = [
            format!("--config.file={}", path.display()),
            format!("--storage.path={}", folder.join("alertmanager").display()),
            format!("--web.listen-address={address}"),
            "--cluster.listen-address=".to_owned(),
        ];
        let mut alertmanager = Daemon::start("alertmanager", program, args, folder);
        let http = client();
        wait_until("Alertmanager is ready", async || {
            alertmanager.must_run();
            get(&http, &format!("http://{address}/-/ready")).await
        })
        .await;
        Self {
            webhook,
            address,
            _alertmanager: alertmanager,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Time enough for a second notification of what was told, which must not come: two of the groups' intervals.
    pub(crate) async fn settle(&self) {
        self.pass(12.0).await;
    }

    /// Waits until so much time has passed, where time itself is what the test is about.
    pub(crate) async fn pass(&self, seconds: f64) {
        let until = self.webhook.now() + seconds;
        wait_until("time passes", async || {
            (self.webhook.now() >= until).then_some(())
        })
        .await;
    }

    /// Waits until a person has read so many notifications of events.
    pub(crate) async fn until_read(&self, status: &str, count: usize) {
        wait_until(&format!("{count} {status} notifications"), async || {
            (self.webhook.of_events(status).len() >= count).then_some(())
        })
        .await;
    }
}

/// Prometheus with the rules of `alerts/`.
pub(crate) struct Prometheus {
    pub(crate) address: String,
    daemon: Daemon,
    http: reqwest::Client,
}

impl Prometheus {
    /// From the moment when it has scraped every target.
    pub(crate) async fn start(
        program: &Path,
        seconds: u32,
        targets: &[&Exporter],
        pager: &Pager,
        folder: &Path,
    ) -> Self {
        let rules = rules(folder);
        let targets: Vec<String> = targets
            .iter()
            .map(|it| format!("'{}'", it.address))
            .collect();
        let config = format!(
            "global: {{ scrape_interval: {seconds}s, scrape_timeout: {seconds}s, evaluation_interval: {seconds}s }}\n\
             rule_files: ['{}/*.rules.yml']\n\
             scrape_configs:\n- job_name: azure-scheduled-events\n  static_configs:\n  - targets: [{}]\n\
             alerting:\n  alertmanagers:\n  - static_configs:\n    - targets: ['{}']\n",
            rules.display(),
            targets.join(","),
            pager.address,
        );
        let path = folder.join("prometheus.yml");
        fs::write(&path, config).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let args = [
            format!("--config.file={}", path.display()),
            format!(
                "--storage.tsdb.path={}",
                folder.join("prometheus").display()
            ),
            format!("--web.listen-address={address}"),
        ];
        let daemon = Daemon::start("prometheus", program, args, folder);
        let mut prometheus = Self {
            address,
            daemon,
            http: client(),
        };
        let all = format!("sum(up) == {}", targets.len());
        prometheus.until(&all).await;
        prometheus
    }

    /// Waits until an expression has a result.
    pub(crate) async fn until(&mut self, expression: &str) {
        let url = format!("http://{}/api/v1/query", self.address);
        let url = reqwest::Url::parse_with_params(&url, [("query", expression)]).unwrap();
        wait_until(expression, async || {
            self.daemon.must_run();
            let answer: Value =
                serde_json::from_str(&get(&self.http, url.as_str()).await?).unwrap();
            answer["data"]["result"].as_array()?.first().map(|_| ())
        })
        .await;
    }
}

/// The rules as they are, but that an exporter is told to be down after seconds rather than ten minutes.
fn rules(folder: &Path) -> PathBuf {
    let copies = folder.join("rules");
    fs::create_dir(&copies).unwrap();
    for name in ["scheduled-events.rules.yml", "exporter-health.rules.yml"] {
        let text = fs::read_to_string(Path::new(RULES).join(name)).unwrap();
        fs::write(copies.join(name), text.replace("for: 10m\n", "for: 3s\n")).unwrap();
    }
    copies
}

impl Exporter {
    /// The exporter of a VM that the simulated Azure knows, from its first good poll.
    pub(crate) async fn of_vm(
        azure: &Self,
        vm: &str,
        pager: Option<&Pager>,
        folder: &Path,
    ) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        Self::of_vm_at(address, azure, vm, pager, folder).await
    }

    /// The same at an address of one's own, such as that of the one that was there before.
    pub(crate) async fn of_vm_at(
        address: String,
        azure: &Self,
        vm: &str,
        pager: Option<&Pager>,
        folder: &Path,
    ) -> Self {
        let home = folder.join(vm);
        fs::create_dir_all(&home).unwrap();
        let mut flags = vec![
            format!("--imds.url={}", azure.url("")),
            format!("--vm.name={vm}"),
            format!("--state.directory={}", home.join("state").display()),
        ];
        flags.extend(pager.map(|pager| format!("--alertmanager.url={}", pager.url())));
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Self::run(address, &flags, &home).await
    }

    /// Starts a scenario of the simulated Azure now.
    pub(crate) async fn play(&self, scenario: Value) {
        let body = serde_json::json!({ "scenario": scenario }).to_string();
        let request = client().post(self.url("/simulator/start")).body(body);
        let answer = request
            .header("content-type", "application/json")
            .send()
            .await
            .unwrap();
        assert!(
            answer.status().is_success(),
            "{}",
            answer.text().await.unwrap()
        );
    }
}
