//! Where the foreign programs are; who is missing one is told how to get it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A part as `tests/parts/install` calls it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    Debian,
    Prometheus3,
    Alertmanager,
    Browser,
    Windows,
    Collector,
}

impl Part {
    fn word(self) -> &'static str {
        match self {
            Self::Debian => "debian",
            Self::Prometheus3 => "prometheus3",
            Self::Alertmanager => "alertmanager",
            Self::Browser => "browser",
            Self::Windows => "windows",
            Self::Collector => "collector",
        }
    }

    /// What its variables in `tests/parts/pins` begin with.
    fn key(self) -> String {
        match self {
            Self::Collector => "OTELCOL".to_owned(),
            named_alike => named_alike.word().to_uppercase(),
        }
    }
}

/// A program that the system's packages bring.
pub(crate) fn system(part: Part, path: &str) -> PathBuf {
    present(part, PathBuf::from(path))
}

/// A program built by `tests/parts/install`: `cached(Part::Prometheus3, "prometheus", "promtool")`.
pub(crate) fn cached(part: Part, name: &str, program: &str) -> PathBuf {
    let key = format!("{}_VERSION=", part.key());
    let version = include_str!("../../parts/pins")
        .lines()
        .find_map(|line| line.strip_prefix(&key))
        .unwrap_or_else(|| panic!("tests/parts/pins has no {key}"));
    let caches = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").expect("HOME or XDG_CACHE_HOME")).join(".cache"),
        PathBuf::from,
    );
    let folder = format!("azure-scheduled-events-exporter/{name}-{version}");
    present(part, caches.join(folder).join(program))
}

/// `node` with a script of `tests/browser`, whose packages must be there.
pub(crate) fn node_script(script: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    present(
        Part::Browser,
        folder.join("node_modules/playwright-core/package.json"),
    );
    present(Part::Browser, PathBuf::from("/usr/bin/chromium"));
    let mut node = Command::new("node");
    node.arg(folder.join(script));
    node
}

fn present(part: Part, path: PathBuf) -> PathBuf {
    assert!(
        path.exists(),
        "{} is missing; run: tests/parts/install {}",
        path.display(),
        part.word()
    );
    path
}
