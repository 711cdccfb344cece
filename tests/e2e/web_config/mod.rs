//! Prometheus scrapes over TLS 1.2 and 1.3 with a client certificate and a password; Chromium shows the status page;
//! OpenSSL finds what the port accepts.

mod openssl;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::exporter::PROGRAM;
use crate::support::{
    DEADLINE, Daemon, Tool, cached, certificates, client, get, system, wait_until,
};

pub(crate) const PASSWORD: &str = "a password";

#[derive(Clone, Copy)]
pub(crate) enum ClientAuth {
    None,
    Verified,
}

/// Writes a CA, certificates of a server and of a client, and the file of `--web.config.file`.
pub(crate) fn write_files(folder: &Path, client_auth: ClientAuth) -> PathBuf {
    certificates(folder);
    let hash = bcrypt::hash(PASSWORD, 10).unwrap();
    let client_auth = match client_auth {
        ClientAuth::None => "",
        ClientAuth::Verified => {
            "  client_ca_file: ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
        }
    };
    let config = format!(
        "tls_server_config:\n  cert_file: server.pem\n  key_file: server-key.pem\n{client_auth}\
         basic_auth_users:\n  prometheus: {hash}\n"
    );
    let path = folder.join("web.yml");
    fs::write(&path, config).unwrap();
    path
}

/// A demo with this file, and its address.
pub(crate) async fn demo(folder: &Path, config: &Path) -> (Daemon, String) {
    let config = format!("--web.config.file={}", config.display());
    let args = ["demo", "--web.listen-address=127.0.0.1:0", &config];
    let mut demo = Daemon::start("demo", Path::new(PROGRAM), args, folder);
    let address = demo.logged_address(DEADLINE).await;
    (demo, address)
}

#[tokio::test]
async fn prometheus_2_scrapes_over_tls_with_a_client_certificate_and_a_password() {
    scrapes_over_tls("prometheus-2", &system(Tool::Debian, "/usr/bin/prometheus")).await;
}

#[tokio::test]
async fn prometheus_3_scrapes_over_tls_with_a_client_certificate_and_a_password() {
    let program = cached(Tool::Prometheus3, "prometheus", "prometheus");
    scrapes_over_tls("prometheus-3", &program).await;
}

/// A scrape with everything that is asked for, per version of TLS, and one without each part of it.
async fn scrapes_over_tls(name: &'static str, program: &Path) {
    let folder = TempDir::new().unwrap();
    let config = write_files(folder.path(), ClientAuth::Verified);
    let (mut demo, address) = demo(folder.path(), &config).await;
    let scrape = scrape_config(folder.path(), &address);
    let args = [
        format!("--config.file={}", scrape.display()),
        format!(
            "--storage.tsdb.path={}",
            folder.path().join("tsdb").display()
        ),
        "--web.listen-address=127.0.0.1:0".to_owned(),
    ];
    let mut prometheus = Daemon::start(name, program, args, folder.path());
    let api = prometheus.listening_on(std::net::Ipv4Addr::LOCALHOST).await;
    let http = client();
    let mut until = async |query: &str, expected: &str| {
        let url = format!("http://{api}/api/v1/query?query={query}");
        wait_until(query, async || {
            demo.assert_running();
            prometheus.assert_running();
            (value(&get(&http, &url).await?)? == expected).then_some(())
        })
        .await;
    };
    for (job, up) in [
        ("tls12", "1"),
        ("tls13", "1"),
        ("no-certificate", "0"),
        ("no-password", "0"),
        ("wrong-password", "0"),
        ("no-tls", "0"),
    ] {
        // Several scrapes: a connection that is kept must work too.
        for function in ["count", "min", "max"] {
            let query = format!("{function}_over_time(up{{job=\"{job}\"}}[10s])");
            let expected = if function == "count" { "3" } else { up };
            until(&query, expected).await;
        }
    }
    until("count(azure_scheduled_events_up)", "2").await;
}

/// The value of a response with one series.
fn value(response: &str) -> Option<String> {
    let response: Value = serde_json::from_str(response).unwrap();
    let value = &response["data"]["result"][0]["value"][1];
    value.as_str().map(str::to_owned)
}

fn scrape_config(folder: &Path, address: &str) -> PathBuf {
    let certificate = "cert_file: client.pem, key_file: client-key.pem";
    let password = format!("{{username: prometheus, password: '{PASSWORD}'}}");
    let wrong = "{username: prometheus, password: wrong}";
    let versions = |version: &str| format!("min_version: {version}, max_version: {version}, ");
    let (tls12, tls13) = (versions("TLS12"), versions("TLS13"));
    let jobs: Vec<_> = [
        ("tls12", "https", format!("{tls12}{certificate}"), Some(password.as_str())),
        ("tls13", "https", format!("{tls13}{certificate}"), Some(&password)),
        ("no-certificate", "https", "insecure_skip_verify: false".to_owned(), Some(&password)),
        ("no-password", "https", certificate.to_owned(), None),
        ("wrong-password", "https", certificate.to_owned(), Some(wrong)),
        ("no-tls", "http", certificate.to_owned(), Some(&password)),
    ]
    .into_iter()
    .map(|(job, scheme, tls, password)| {
        let password = password.map_or_else(String::new, |text| format!("  basic_auth: {text}\n"));
        format!(
            "- job_name: {job}\n  scheme: {scheme}\n  tls_config: {{ca_file: ca.pem, {tls}}}\n{password}  \
             static_configs:\n  - targets: ['{address}']\n"
        )
    })
    .collect();
    let jobs = jobs.concat();
    let path = folder.join("scrape.yml");
    let global = "global:\n  scrape_interval: 3s\n  scrape_timeout: 3s\nscrape_configs:\n";
    fs::write(&path, format!("{global}{jobs}")).unwrap();
    path
}
