//! The port speaks TLS 1.2 and 1.3 with the suites that ECDHE and an AEAD make, and nothing else that OpenSSL offers.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::demo;
use crate::support::exporter::PROGRAM;
use crate::support::{Daemon, Tool, system};

/// Also those that OpenSSL has for old servers only: no encryption, no certificate, and old versions of TLS.
const EVERY_SUITE: &str = "ALL:COMPLEMENTOFALL:@SECLEVEL=0";
const TLS13_SUITES: [&str; 5] = [
    "TLS_AES_128_CCM_8_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];

/// `openssl`, without the limits that a distribution sets.
fn openssl(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(system(Tool::Debian, "/usr/bin/openssl"));
    command
        .args(args)
        .current_dir(folder)
        .env("OPENSSL_CONF", "/dev/null")
        .stdin(Stdio::null());
    command
}

fn output(folder: &Path, args: &[&str]) -> String {
    let output = openssl(folder, args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes `server.pem` and `server-key.pem`. Without an option for an extension, the certificate has version 1.
fn write_certificate(folder: &Path, options: &[&str]) {
    let mut args = vec!["req", "-x509", "-noenc", "-subj", "/CN=localhost"];
    args.extend(["-out", "server.pem", "-keyout", "server-key.pem"]);
    args.extend(options);
    let made = openssl(folder, &args).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

const ECDSA: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
const RSA: [&str; 2] = ["-newkey", "rsa:2048"];
const EXTENSION: [&str; 2] = ["-addext", "subjectAltName=DNS:localhost"];

/// The suite that a server chooses of those that are offered; `None` if it refuses the client.
fn handshake(folder: &Path, address: &str, offer: &[&str]) -> Option<String> {
    let mut args = vec!["s_client", "-connect", address];
    args.extend(offer);
    let report = output(folder, &args);
    let (_, rest) = report.split_once(", Cipher is ")?;
    let suite = rest.lines().next()?.to_owned();
    (suite != "(NONE)").then_some(suite)
}

/// The versions that a server speaks with a client that has every suite.
fn versions(folder: &Path, address: &str) -> Vec<&'static str> {
    let mut versions = vec!["-tls1", "-tls1_1", "-tls1_2", "-tls1_3"];
    versions
        .retain(|version| handshake(folder, address, &[version, "-cipher", EVERY_SUITE]).is_some());
    versions
}

/// All suites that a server accepts: the client offers every one, then every one but those that were chosen before.
fn suites(folder: &Path, address: &str) -> BTreeSet<String> {
    let mut suites = BTreeSet::new();
    let mut offer = EVERY_SUITE.to_owned();
    while let Some(suite) = handshake(folder, address, &["-tls1_2", "-cipher", &offer]) {
        offer = format!("{offer}:!{suite}");
        assert!(suites.insert(suite), "{offer}");
    }
    let mut left = TLS13_SUITES.to_vec();
    while let Some(suite) = {
        let offer = left.join(":");
        handshake(folder, address, &["-tls1_3", "-ciphersuites", &offer])
    } {
        left.retain(|other| *other != suite);
        assert!(suites.insert(suite), "{left:?}");
    }
    suites
}

/// Without this, a client that cannot speak what is weak would be taken for a server that refuses it.
async fn assert_that_weak_ones_are_found(folder: &Path) {
    let tls13 = TLS13_SUITES.join(":");
    let mut args = vec!["s_server", "-accept", "127.0.0.1:0", "-www"];
    args.extend(["-cipher", EVERY_SUITE, "-ciphersuites", &tls13]);
    args.extend(["-cert", "server.pem", "-key", "server-key.pem"]);
    let program = system(Tool::Debian, "/usr/bin/openssl");
    let variables = [("OPENSSL_CONF", "/dev/null".as_ref())];
    let mut server = Daemon::start_with("openssl", &program, args, &variables, folder);
    let address = server.listening_on(Ipv4Addr::LOCALHOST).await.to_string();
    let versions = versions(folder, &address);
    assert_eq!(versions, ["-tls1", "-tls1_1", "-tls1_2", "-tls1_3"]);
    let suites = suites(folder, &address);
    for weak in ["NULL", "ADH", "CAMELLIA", "AES128-SHA", "CCM8", "CCM_8"] {
        let is_found = suites.iter().any(|suite| suite.contains(weak));
        assert!(is_found, "{weak}: {suites:?}");
    }
}

#[tokio::test]
async fn openssl_finds_no_version_below_tls_1_2_and_no_weak_suite() {
    for (key, authentication) in [(&ECDSA[..], "ECDSA"), (&RSA[..], "RSA")] {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        write_certificate(folder, &[key, &EXTENSION].concat());
        assert_that_weak_ones_are_found(folder).await;
        let config = folder.join("web.yml");
        let text = "tls_server_config: {cert_file: server.pem, key_file: server-key.pem}";
        fs::write(&config, text).unwrap();
        let (mut exporter, address) = demo(folder, &config).await;
        assert_eq!(versions(folder, &address), ["-tls1_2", "-tls1_3"]);
        let tls12 = [
            "AES128-GCM-SHA256",
            "AES256-GCM-SHA384",
            "CHACHA20-POLY1305",
        ];
        let tls12 = tls12.map(|cipher| format!("ECDHE-{authentication}-{cipher}"));
        let tls13 = [
            "TLS_AES_128_GCM_SHA256",
            "TLS_AES_256_GCM_SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
        ];
        let expected = tls12.into_iter().chain(tls13.map(str::to_owned));
        assert_eq!(suites(folder, &address), expected.collect());
        exporter.assert_running();
    }
}

#[test]
fn a_certificate_of_version_1_is_refused_with_a_line_that_says_so() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    write_certificate(folder, &ECDSA);
    let config = folder.join("web.yml");
    let text = "tls_server_config: {cert_file: server.pem, key_file: server-key.pem}";
    fs::write(&config, text).unwrap();
    let flag = format!("--web.config.file={}", config.display());
    let ended = Command::new(PROGRAM).arg(flag).output().unwrap();
    assert_eq!(ended.status.code(), Some(64), "{ended:?}");
    let line = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(
        line.contains("server.pem\": is not of X.509 version 3"),
        "{line}"
    );
}
