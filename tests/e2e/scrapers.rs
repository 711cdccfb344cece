//! Three scrapers store `/metrics` without a complaint in their logs, and return its values.

use std::{collections::BTreeMap, fs, path::Path};

use tempfile::TempDir;

use crate::support::exporter::Exporter;
use crate::support::{
    DEADLINE, Daemon, Prometheus, Sample, Series, Tool, cached, client, get, samples, system,
    wait_until, wait_until_for,
};

#[tokio::test]
async fn prometheus_2_stores_what_metrics_serves() {
    scraped_by_prometheus(&system(Tool::Debian, "/usr/bin/prometheus")).await;
}

#[tokio::test]
async fn prometheus_3_stores_what_metrics_serves() {
    let program = cached(Tool::Prometheus3, "prometheus", "prometheus");
    scraped_by_prometheus(&program).await;
}

#[tokio::test]
async fn victoria_metrics_stores_what_metrics_serves() {
    let program = system(Tool::Debian, "/usr/bin/victoria-metrics");
    let folder = TempDir::new().unwrap();
    let demo = Exporter::demo(folder.path(), &[]).await;
    fs::write(folder.path().join("scrape.yml"), scrape_config(&demo)).unwrap();
    let args = [
        "-storageDataPath=victoria",
        "-httpListenAddr=127.0.0.1:0",
        "-promscrape.config=scrape.yml",
        // Samples can be queried at once, not after 30 seconds.
        "-search.latencyOffset=0s",
    ];
    let daemon = Daemon::start("victoria-metrics", &program, args, folder.path());
    let mut scraper = Scraper(Prometheus::of(daemon).await);
    scraper.stores_what_metrics_serves(&demo).await;
    scraper.assert_no_complaint(&["\twarn\t", "\terror\t", "\tfatal\t", "\tpanic\t"]);
}

async fn scraped_by_prometheus(program: &Path) {
    let folder = TempDir::new().unwrap();
    let demo = Exporter::demo(folder.path(), &[]).await;
    // Errors of a scrape are logged at this level.
    let flags = ["--log.level=debug"];
    let config = scrape_config(&demo);
    let mut scraper = Scraper(Prometheus::start(program, &config, &flags, folder.path()).await);
    scraper.stores_what_metrics_serves(&demo).await;
    scraper.parsed_open_metrics(&demo).await;
    scraper.assert_no_complaint(&[
        "level=warn",
        "level=error",
        "scrape failed",
        "append failed",
    ]);
}

/// Prometheus and `VictoriaMetrics` read the same file.
fn scrape_config(demo: &Exporter) -> String {
    let target = &demo.address;
    format!(
        "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\nscrape_configs:\n\
         - job_name: exporter\n  static_configs:\n  - targets: ['{target}']\n"
    )
}

/// Values by series.
type Values = BTreeMap<Series, f64>;

struct Scraper(Prometheus);

impl Scraper {
    /// Waits until it has the series of `/metrics` and no other, and the value of each that did not change around the
    /// scrape.
    ///
    /// They may differ at first: events come and go, and `VictoriaMetrics` takes time to find a new series.
    async fn stores_what_metrics_serves(&mut self, demo: &Exporter) {
        let what = "the scraper has what /metrics serves";
        wait_until_for(DEADLINE, what, async || {
            let before = values(demo).await;
            self.scraped_since(now()).await;
            let stored = self.stored().await.ok_or("no response to the query")?;
            let after = values(demo).await;
            compare(&before, &stored, &after)
        })
        .await;
    }

    /// Waits until the scraper has a sample taken after `instant`.
    async fn scraped_since(&mut self, instant: f64) {
        wait_until("a new scrape", async || {
            let taken = "timestamp(azure_scheduled_events_up)";
            let answer = self.0.query("query", taken).await?;
            let taken = answer.first()?["value"][1].as_str()?.parse::<f64>().ok()?;
            (taken > instant).then_some(())
        })
        .await;
    }

    /// The stored series, without the labels that a scraper adds.
    async fn stored(&mut self) -> Option<Values> {
        let azure = r#"{__name__=~"azure_.*"}"#;
        let answer = self.0.query("query", azure).await?;
        let series = answer.iter().map(|one| {
            let mut labels: BTreeMap<String, String> =
                serde_json::from_value(one["metric"].clone()).unwrap();
            let name = labels.remove("__name__").unwrap();
            labels.remove("job").unwrap();
            labels.remove("instance").unwrap();
            (
                Series::new(&name, labels),
                one["value"][1].as_str().unwrap().parse().unwrap(),
            )
        });
        Some(series.collect())
    }

    /// Prometheus prefers `OpenMetrics`, the only format that has units.
    async fn parsed_open_metrics(&mut self, demo: &Exporter) {
        let metadata = self.0.query("targets/metadata", "").await.unwrap();
        let named = |name: &str| metadata.iter().find(|one| one["metric"] == name);
        let text = get(&client(), &demo.url("/metrics")).await.unwrap();
        for line in text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE azure_"))
        {
            let (name, kind) = line.split_once(' ').unwrap();
            let family = format!("azure_{}", name.strip_suffix("_total").unwrap_or(name));
            let known = named(&family).unwrap_or_else(|| panic!("no metadata of {family}"));
            assert_eq!(known["type"], kind, "{family}");
            assert_ne!(known["help"], "", "{family}");
            let unit = if family.ends_with("_seconds") {
                "seconds"
            } else {
                ""
            };
            assert_eq!(known["unit"], unit, "{family}");
        }
    }

    /// No line of the log contains one of these words, in any case.
    fn assert_no_complaint(&self, complaints: &[&str]) {
        let log = self.0.daemon.log();
        let bad: Vec<&str> = log
            .lines()
            .filter(|line| {
                complaints
                    .iter()
                    .any(|word| line.to_lowercase().contains(word))
            })
            .collect();
        assert!(bad.is_empty(), "the scraper complains:\n{}", bad.join("\n"));
    }
}

/// `/metrics` now, without the metrics of the process.
async fn values(demo: &Exporter) -> Values {
    let text = get(&client(), &demo.url("/metrics"))
        .await
        .expect("/metrics of the demo");
    let ours = samples(&text)
        .into_iter()
        .filter(|sample| sample.series.name.starts_with("azure_"));
    ours.map(|Sample { series, value }| (series, value))
        .collect()
}

/// Fails with the first difference between the scraper and `/metrics` before and after the scrape.
fn compare(before: &Values, stored: &Values, after: &Values) -> Result<(), String> {
    let missing = before.keys().find(|&series| !stored.contains_key(series));
    let surplus = stored.keys().find(|&series| !before.contains_key(series));
    if missing.is_some() || surplus.is_some() {
        return Err(format!("missing {missing:?}, surplus {surplus:?}"));
    }
    let is_constant = |&(series, value): &(&Series, &f64)| {
        after
            .get(series)
            .is_some_and(|then| then.to_bits() == value.to_bits())
    };
    let mut of_events = 0;
    for (series, &value) in before.iter().filter(is_constant) {
        let found = stored[series];
        // VictoriaMetrics stores decimals of fifteen digits.
        if (found - value).abs() > value.abs() * 1e-14 {
            return Err(format!("{series:?}: {found}, but /metrics has {value}"));
        }
        of_events += usize::from(series.labels.contains_key("event_id"));
    }
    if of_events < 6 {
        return Err(format!("only {of_events} series of events were constant"));
    }
    Ok(())
}

fn now() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
}
