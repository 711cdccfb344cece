//! Three scrapers of different age and make take `/metrics` in silence, and give back what it said.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::exporter::Exporter;
use crate::support::{
    DEADLINE, Daemon, Part, Sample, Series, cached, client, free_port, get, samples, system,
    wait_until, wait_until_for,
};

#[tokio::test]
async fn prometheus_2_scrapes_in_silence_and_gives_back_what_metrics_said() {
    scraped_by_prometheus("prometheus-2", &system(Part::Debian, "/usr/bin/prometheus")).await;
}

#[tokio::test]
async fn prometheus_3_scrapes_in_silence_and_gives_back_what_metrics_said() {
    let program = cached(Part::Prometheus3, "prometheus", "prometheus");
    scraped_by_prometheus("prometheus-3", &program).await;
}

#[tokio::test]
async fn victoria_metrics_scrapes_in_silence_and_gives_back_what_metrics_said() {
    let program = system(Part::Debian, "/usr/bin/victoria-metrics");
    let folder = TempDir::new().unwrap();
    let demo = Exporter::demo(folder.path(), &[]).await;
    let listen = format!("127.0.0.1:{}", free_port());
    let config = scrape_config(folder.path(), &demo.address);
    let args = [
        format!(
            "-storageDataPath={}",
            folder.path().join("victoria").display()
        ),
        format!("-httpListenAddr={listen}"),
        format!("-promscrape.config={config}"),
        // A sample is to be had at once, not half a minute later.
        "-search.latencyOffset=0s".to_owned(),
    ];
    let mut scraper = Scraper::new(
        Daemon::start("victoria-metrics", &program, args, folder.path()),
        &listen,
    );
    scraper.gives_back_what_metrics_said(&demo).await;
    scraper.kept_silent(&["\twarn\t", "\terror\t", "\tfatal\t", "\tpanic\t"]);
}

async fn scraped_by_prometheus(name: &'static str, program: &Path) {
    let folder = TempDir::new().unwrap();
    let demo = Exporter::demo(folder.path(), &[]).await;
    let listen = format!("127.0.0.1:{}", free_port());
    let args = [
        format!(
            "--config.file={}",
            scrape_config(folder.path(), &demo.address)
        ),
        format!(
            "--storage.tsdb.path={}",
            folder.path().join("tsdb").display()
        ),
        format!("--web.listen-address={listen}"),
        // What is wrong with a scrape is told at this level.
        "--log.level=debug".to_owned(),
    ];
    let mut scraper = Scraper::new(Daemon::start(name, program, args, folder.path()), &listen);
    scraper.gives_back_what_metrics_said(&demo).await;
    scraper.understood_open_metrics(&demo).await;
    scraper.kept_silent(&[
        "level=warn",
        "level=error",
        "scrape failed",
        "append failed",
    ]);
}

/// Both kinds of scraper read the same file.
fn scrape_config(folder: &Path, target: &str) -> String {
    let path = folder.join("scrape.yml");
    let text = format!(
        "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\nscrape_configs:\n\
         - job_name: exporter\n  static_configs:\n  - targets: ['{target}']\n"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Values by series.
type Said = BTreeMap<Series, f64>;

struct Scraper {
    daemon: Daemon,
    api: String,
    http: reqwest::Client,
}

impl Scraper {
    fn new(daemon: Daemon, listen: &str) -> Self {
        Self {
            daemon,
            api: format!("http://{listen}/api/v1"),
            http: client(),
        }
    }

    /// Every series of `/metrics` is there and no other; whatever stood still around the scrape has its value.
    ///
    /// Asked again while they differ: an event comes or goes meanwhile, and `VictoriaMetrics` finds a
    /// new series only some time after it took it.
    async fn gives_back_what_metrics_said(&mut self, demo: &Exporter) {
        let what = "the scraper says what /metrics says";
        wait_until_for(DEADLINE, what, async || {
            self.daemon.must_run();
            let before = said(&self.http, demo).await;
            self.scraped_since(now()).await;
            let kept = self.kept().await.ok_or("no answer to the query")?;
            let after = said(&self.http, demo).await;
            compare(&before, &kept, &after)
        })
        .await;
    }

    /// Until the scraper holds a sample that was taken after `instant`.
    async fn scraped_since(&mut self, instant: f64) {
        wait_until("a fresh scrape", async || {
            self.daemon.must_run();
            let answer = self.query("timestamp(azure_scheduled_events_up)").await?;
            let taken = answer.first()?["value"][1].as_str()?.parse::<f64>().ok()?;
            (taken > instant).then_some(())
        })
        .await;
    }

    async fn query(&self, expression: &str) -> Option<Vec<Value>> {
        let url = reqwest::Url::parse_with_params(
            &format!("{}/query", self.api),
            [("query", expression)],
        )
        .unwrap();
        let answer: Value = serde_json::from_str(&get(&self.http, url.as_str()).await?).unwrap();
        Some(answer["data"]["result"].as_array()?.clone())
    }

    /// What the scraper has of us, as `/metrics` would name it.
    async fn kept(&self) -> Option<Said> {
        let answer = self.query(r#"{__name__=~"azure_.*"}"#).await?;
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

    /// The unit of a metric is only told by `OpenMetrics`: Prometheus asks for it first, and got it.
    async fn understood_open_metrics(&self, demo: &Exporter) {
        let answer = get(&self.http, &format!("{}/targets/metadata", self.api))
            .await
            .unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let metadata = answer["data"].as_array().unwrap();
        let named = |name: &str| metadata.iter().find(|one| one["metric"] == name);
        let text = get(&self.http, &demo.url("/metrics")).await.unwrap();
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

    /// Nothing in the log, in whatever case, of what a scraper complains with.
    fn kept_silent(&self, complaints: &[&str]) {
        let log = self.daemon.log();
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

/// `/metrics` now, without what every process has.
async fn said(http: &reqwest::Client, demo: &Exporter) -> Said {
    let text = get(http, &demo.url("/metrics"))
        .await
        .expect("/metrics of the demo");
    let ours = samples(&text)
        .into_iter()
        .filter(|sample| sample.series.name.starts_with("azure_"));
    ours.map(|Sample { series, value }| (series, value))
        .collect()
}

/// What differs, if anything, between the scraper and what `/metrics` said before and after.
fn compare(before: &Said, kept: &Said, after: &Said) -> Result<(), String> {
    let missing = before.keys().find(|&series| !kept.contains_key(series));
    let invented = kept.keys().find(|&series| !before.contains_key(series));
    if missing.is_some() || invented.is_some() {
        return Err(format!("it lacks {missing:?}, it has besides {invented:?}"));
    }
    let still = |&(series, value): &(&Series, &f64)| {
        after
            .get(series)
            .is_some_and(|then| then.to_bits() == value.to_bits())
    };
    let mut of_events = 0;
    for (series, &value) in before.iter().filter(still) {
        let found = kept[series];
        // VictoriaMetrics keeps decimals, good for fifteen digits.
        if (found - value).abs() > value.abs() * 1e-14 {
            return Err(format!("{series:?}: {found}, but /metrics said {value}"));
        }
        of_events += usize::from(series.labels.contains_key("event_id"));
    }
    if of_events < 6 {
        return Err(format!("only {of_events} series of events stood still"));
    }
    Ok(())
}

fn now() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
}
