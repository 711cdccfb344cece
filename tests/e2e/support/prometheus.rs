//! Prometheus, and programs with its API.

use std::{fs, net::Ipv4Addr, path::Path};

use serde_json::Value;

use super::{Daemon, client, get, wait_until};

pub(crate) struct Prometheus {
    pub(crate) daemon: Daemon,
    pub(crate) address: String,
    http: reqwest::Client,
}

impl Prometheus {
    /// Paths in the configuration are relative to `folder`.
    pub(crate) async fn start(program: &Path, config: &str, flags: &[&str], folder: &Path) -> Self {
        fs::write(folder.join("prometheus.yml"), config).unwrap();
        let own = [
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=tsdb",
            "--web.listen-address=127.0.0.1:0",
        ];
        let args = own.iter().chain(flags);
        Self::of(Daemon::start("prometheus", program, args, folder)).await
    }

    /// Waits until it listens.
    pub(crate) async fn of(mut daemon: Daemon) -> Self {
        Self {
            address: daemon.listening_on(Ipv4Addr::LOCALHOST).await.to_string(),
            daemon,
            http: client(),
        }
    }

    /// The result of an expression, or the data at another path of the API.
    pub(crate) async fn query(&mut self, path: &str, expression: &str) -> Option<Vec<Value>> {
        self.daemon.assert_running();
        let url = format!("http://{}/api/v1/{path}", self.address);
        let url = reqwest::Url::parse_with_params(&url, [("query", expression)]).unwrap();
        let answer: Value = serde_json::from_str(&get(&self.http, url.as_str()).await?).unwrap();
        let data = &answer["data"];
        data.as_array().or(data["result"].as_array()).cloned()
    }

    /// Waits until an expression has a result.
    pub(crate) async fn until(&mut self, expression: &str) {
        wait_until(expression, async || {
            let found = self.query("query", expression).await?;
            (!found.is_empty()).then_some(())
        })
        .await;
    }
}
