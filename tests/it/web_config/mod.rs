//! The exporter with `--web.config.file`, in its own process.

mod access;
mod cases;
mod client;
mod handshakes;
mod load;
mod rotation;
#[cfg(feature = "real-parts")]
mod side_by_side;
mod start;

use std::process::Command;

use base64::Engine as _;

use crate::support::{
    FakeImds, Pki, Reply,
    process::{PROGRAM, Process},
};
use client::{Client, Tls};

const NOTHING: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const STARTED: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Started","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"","Description":"","EventSource":"Platform","DurationInSeconds":9}]}"#;

pub(crate) const TLS: &str =
    "tls_server_config:\n  cert_file: server.pem\n  key_file: server-key.pem\n";
pub(crate) const SERVER_NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// A running exporter and the folder of its file, `web.yml`.
struct Protected {
    pki: Pki,
    imds: FakeImds,
    process: Process,
    address: String,
}

impl Protected {
    async fn start(config: &str) -> Self {
        Self::start_with(Pki::new(), config, &[]).await
    }

    /// With other files than `ca.pem`, `server.pem` and `server-key.pem`, and with more flags.
    async fn start_with(pki: Pki, config: &str, flags: &[&str]) -> Self {
        pki.write_certificate("server", &SERVER_NAMES);
        pki.write("web.yml", config);
        let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
        let mut command = Command::new(PROGRAM);
        command
            .args(["--web.listen-address=127.0.0.1:0", "--vm.name=web_0"])
            .arg("--imds.poll-interval=200ms")
            .arg(format!("--imds.url={}", imds.base()))
            .arg(format!("--web.config.file={}", pki.path("web.yml")))
            .args(flags);
        let mut process = Process::start_as(&mut command);
        process.says("polling started").await;
        Self {
            address: process.address().await,
            pki,
            imds,
            process,
        }
    }

    fn plain(&self) -> Client {
        Client::plain(&self.address)
    }

    fn tls(&self) -> Client {
        self.tls_with(&Tls::default())
    }

    fn tls_with(&self, tls: &Tls<'_>) -> Client {
        Client::tls(&self.address, &self.pki, tls)
    }

    fn has_errors(&self, count: usize) {
        let log = self.process.log();
        assert_eq!(self.logged("level=error"), count, "{log}");
    }

    /// Log lines with these words.
    fn logged(&self, words: &str) -> usize {
        let log = self.process.log();
        log.lines().filter(|line| line.contains(words)).count()
    }
}

/// A hash of bcrypt. Costs below 4 are invalid.
fn hash(cost: u32, password: &str) -> String {
    bcrypt::hash(password, cost).unwrap()
}

/// `basic_auth_users` with one user.
pub(crate) fn user(name: &str, cost: u32, password: &str) -> String {
    format!("basic_auth_users:\n  {name}: {}\n", hash(cost, password))
}

/// An `Authorization` header.
fn basic(name: &str, password: &str) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"));
    format!("Authorization: Basic {text}")
}
