//! A list of documents: accepted with their settings and notes, or refused with a line that names the setting.

mod accepted;
mod refused;

use std::path::Path;

use super::super::settings::Settings;

const CAROL: &str = "$2y$10$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu";

fn parse(text: &str) -> Result<Settings, String> {
    Settings::parse(text, Path::new("/etc/exporter"))
}

/// `tls_server_config` with a certificate, a key and these lines.
fn with_tls(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(|line| format!("  {line}\n")).collect();
    let lines = lines.concat();
    format!("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n{lines}")
}
