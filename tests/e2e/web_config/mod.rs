//! Prometheus scrapes over TLS 1.2 and 1.3 with a client certificate and a password; Chromium shows the status page;
//! OpenSSL finds what the port accepts.

mod openssl;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::exporter::PROGRAM;
use crate::support::{DEADLINE, Daemon, Prometheus, Tool, cached, certificates, system};

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
    scrapes_over_tls(&system(Tool::Debian, "/usr/bin/prometheus")).await;
}

#[tokio::test]
async fn prometheus_3_scrapes_over_tls_with_a_client_certificate_and_a_password() {
    let program = cached(Tool::Prometheus3, "prometheus", "prometheus");
    scrapes_over_tls(&program).await;
}

/// A scrape with everything that is asked for, per version of TLS, and one without each part of it.
async fn scrapes_over_tls(program: &Path) {
    let folder = TempDir::new().unwrap();
    let config = write_files(folder.path(), ClientAuth::Verified);
    let (mut demo, address) = demo(folder.path(), &config).await;
    let scrape = scrape_config(&address);
    let mut prometheus = Prometheus::start(program, &scrape, &[], folder.path()).await;
    for (job, up) in [
        ("tls12", 1),
        ("tls13", 1),
        ("no-certificate", 0),
        ("no-password", 0),
        ("wrong-password", 0),
        ("no-tls", 0),
    ] {
        // Several scrapes: a connection that is kept must work too.
        for (function, expected) in [("count", 3), ("min", up), ("max", up)] {
            let scrapes = format!("up{{job=\"{job}\"}}[10s]");
            let is_expected = format!("{function}_over_time({scrapes}) == {expected}");
            prometheus.until(&is_expected).await;
        }
    }
    prometheus
        .until("count(azure_scheduled_events_up) == 2")
        .await;
    demo.assert_running();
}

fn scrape_config(address: &str) -> String {
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
    let global = "global:\n  scrape_interval: 3s\n  scrape_timeout: 3s\nscrape_configs:\n";
    format!("{global}{jobs}")
}
