//! exporter-toolkit and the exporter as processes, and what they answer.

use std::{fmt::Write as _, path::PathBuf, process::Command};

use rustls::version::{TLS12, TLS13};

use super::super::{
    basic,
    client::{Client, Tls},
};
use crate::support::{
    Pki,
    process::{PROGRAM, Process},
};

const HEADERS: [&str; 4] = [
    "strict-transport-security",
    "x-frame-options",
    "x-xss-protection",
    "www-authenticate",
];
/// Those that the exporter has anyway.
const OWN_HEADERS: [&str; 2] = ["content-security-policy", "x-content-type-options"];

fn oracle() -> PathBuf {
    let version = pinned("EXPORTER_TOOLKIT_VERSION=");
    let path = format!("toolkit-{version}/exporter-toolkit-oracle");
    cached(&path, "toolkit")
}

fn promtool() -> PathBuf {
    let version = pinned("PROMETHEUS3_VERSION=");
    cached(&format!("prometheus-{version}/promtool"), "prometheus3")
}

fn pinned(key: &str) -> &'static str {
    let mut pins = include_str!("../../../tools/pins").lines();
    pins.find_map(|line| line.strip_prefix(key)).unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "finds the programs by the environment"
)]
fn cached(path: &str, tool: &str) -> PathBuf {
    let caches = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"),
        PathBuf::from,
    );
    let path = caches.join("azure-scheduled-events-exporter").join(path);
    assert!(
        path.exists(),
        "{} is missing; run: tests/tools/install {tool}",
        path.display()
    );
    path
}

pub(super) fn is_valid_for_promtool(config: &str) -> bool {
    let checked = Command::new(promtool())
        .args(["check", "web-config", config])
        .output();
    checked.unwrap().status.success()
}

/// What a server does with a file: refuses it with a message, or answers the requests of [`ask`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Observed {
    Refused(String),
    Served(Vec<String>),
}

pub(super) struct Server {
    process: Process,
    pub(super) address: String,
}

/// `Err` with its log if the program ends with this code.
async fn start(command: &mut Command, code: i32) -> Result<Server, String> {
    let mut process = Process::start_as(command);
    let address =
        crate::support::wait_until(crate::support::DEADLINE, "it listens or ends", || {
            let has_ended = process.has_ended();
            let log = process.log();
            let listens = log
                .lines()
                .find(|line| line.contains("address=") && line.contains("listening"));
            listens
                .map(|line| {
                    let (_, rest) = line.split_once("address=").unwrap();
                    Some(
                        rest.split_whitespace()
                            .next()
                            .unwrap()
                            .trim_matches('"')
                            .to_owned(),
                    )
                })
                .or(has_ended.then_some(None))
        })
        .await;
    if let Some(address) = address {
        return Ok(Server { process, address });
    }
    let ended = process.end().await;
    assert_eq!(ended.code, Some(code), "{ended:?}");
    Err(ended.log)
}

/// The toolkit listens before it reads the file.
pub(super) async fn start_oracle(config: &str) -> Result<Server, String> {
    let checked = Command::new(oracle())
        .args(["--check", "--web.config.file", config])
        .output()
        .unwrap();
    if !checked.status.success() {
        assert_eq!(checked.status.code(), Some(1), "{checked:?}");
        return Err(String::from_utf8_lossy(&checked.stderr).into_owned());
    }
    let mut command = Command::new(oracle());
    start(command.args(["--web.config.file", config]), 1).await
}

pub(super) async fn start_ours(config: &str) -> Result<Server, String> {
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "--web.listen-address=127.0.0.1:0",
            "--imds.url=http://127.0.0.1:9",
        ])
        .arg(format!("--web.config.file={config}"));
    start(&mut command, 64).await
}

pub(super) async fn observe(pki: &Pki, server: Result<Server, String>) -> Observed {
    match server {
        Err(message) => Observed::Refused(message),
        Ok(server) => {
            let mut lines = Vec::new();
            for number in 0..REQUESTS {
                lines.push(ask(pki, &server.address, number).await);
            }
            drop(server.process);
            Observed::Served(lines)
        }
    }
}

const REQUESTS: usize = 8;

/// The response to one of a list of requests, in one line.
pub(super) async fn ask(pki: &Pki, address: &str, number: usize) -> String {
    let plain = Client::plain(address);
    let tls = |version, certificate: Option<&str>| {
        let certificate = certificate.map(|name| (pki, name));
        let tls = Tls {
            version,
            certificate,
        };
        Client::tls(address, pki, &tls)
    };
    let right = basic("bob", "a");
    let (client, header) = match number {
        0 => (plain, None),
        1 => (plain, Some(right)),
        2 => (tls(Some(&TLS12), None), None),
        3 => (tls(Some(&TLS13), None), None),
        4 => (tls(Some(&TLS13), Some("ours")), None),
        5 => (tls(Some(&TLS12), Some("foreign")), None),
        6 => (tls(None, Some("ours")), Some(right)),
        _ => (tls(None, Some("ours")), Some(basic("alice", "a"))),
    };
    let headers: Vec<&str> = header.as_deref().into_iter().collect();
    let Ok(response) = client.get("/metrics", &headers).await else {
        return format!("request {number}: no response");
    };
    let mut line = format!("request {number}: {}", response.status);
    for name in HEADERS.iter().chain(&OWN_HEADERS) {
        let start = format!("\r\n{name}:");
        if let Some((_, rest)) = response.head.split_once(&start) {
            let value = rest.lines().next().unwrap_or_default().trim();
            write!(line, ", {name}: {value}").unwrap();
        }
    }
    if response.status != 200 {
        write!(line, ", {:?}", response.body).unwrap();
    }
    line
}

/// `ours` without the headers that the exporter adds by itself.
pub(super) fn without_own_headers(theirs: &[String], ours: Vec<String>) -> Vec<String> {
    let lines = theirs.iter().zip(ours).map(|(theirs, ours)| {
        let is_own = |part: &&str| {
            let is_header = OWN_HEADERS.iter().any(|name| part.starts_with(name));
            is_header && !theirs.contains(*part)
        };
        let parts: Vec<&str> = ours.split(", ").filter(|part| !is_own(part)).collect();
        parts.join(", ")
    });
    lines.collect()
}
