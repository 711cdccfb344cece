//! Paths of the foreign programs; a missing one fails the test with the command that installs it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An argument of `tests/tools/install`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tool {
    Debian,
    Prometheus3,
    Alertmanager,
    Browser,
    Windows,
    Collector,
    #[cfg(feature = "receivers")]
    Jaeger,
    #[cfg(feature = "receivers")]
    Telegraf,
    #[cfg(feature = "receivers")]
    Scraper,
}

impl Tool {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Debian => "debian",
            Self::Prometheus3 => "prometheus3",
            Self::Alertmanager => "alertmanager",
            Self::Browser => "browser",
            Self::Windows => "windows",
            Self::Collector => "collector",
            #[cfg(feature = "receivers")]
            Self::Jaeger => "jaeger",
            #[cfg(feature = "receivers")]
            Self::Telegraf => "telegraf",
            #[cfg(feature = "receivers")]
            Self::Scraper => "scraper",
        }
    }

    /// The prefix of its variables in `tests/tools/pins`.
    fn key(self) -> String {
        match self {
            Self::Collector => "OTELCOL".to_owned(),
            other => other.name().to_uppercase(),
        }
    }
}

/// A program of a Debian package.
pub(crate) fn system(tool: Tool, path: &str) -> PathBuf {
    present(tool, PathBuf::from(path))
}

/// A program built by `tests/tools/install`: `cached(Tool::Prometheus3, "prometheus", "promtool")`.
pub(crate) fn cached(tool: Tool, name: &str, program: &str) -> PathBuf {
    let key = format!("{}_VERSION=", tool.key());
    let version = include_str!("../../tools/pins")
        .lines()
        .find_map(|line| line.strip_prefix(&key))
        .unwrap_or_else(|| panic!("tests/tools/pins has no {key}"));
    let caches = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("HOME or XDG_CACHE_HOME")).join(".cache"),
        PathBuf::from,
    );
    let folder = format!("azure-scheduled-events-exporter/{name}-{version}");
    present(tool, caches.join(folder).join(program))
}

/// `node` with a script of `tests/browser`.
pub(crate) fn node_script(script: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    present(
        Tool::Browser,
        folder.join("node_modules/playwright-core/package.json"),
    );
    present(Tool::Browser, PathBuf::from("/usr/bin/chromium"));
    let mut node = Command::new("node");
    node.arg(folder.join(script));
    node
}

fn present(tool: Tool, path: PathBuf) -> PathBuf {
    assert!(
        path.exists(),
        "{} is missing; run: tests/tools/install {}",
        path.display(),
        tool.name()
    );
    path
}

/// Runs a program with `input`; returns what it printed, and fails if it does.
pub(crate) fn run(command: &mut Command, input: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {stdout}{stderr}");
    stdout
}
