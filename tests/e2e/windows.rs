//! The exporter stays a Windows program: it is built for it, starts under Wine and answers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::{Daemon, Part, client, free_port, get, samples, system, wait_until_for};

/// Wine prepares its prefix at the first start, which takes a while.
const WINE: Duration = Duration::from_mins(5);

#[tokio::test]
async fn demo_answers_metrics_on_windows() {
    let wine = Wine::new();
    let exe = exe();
    let address = format!("127.0.0.1:{}", free_port());
    let listen = format!("--web.listen-address={address}");
    let args = [exe.as_os_str(), OsStr::new("demo"), OsStr::new(&listen)];
    let mut daemon = Daemon::start_with(
        "exporter.exe",
        &wine.program,
        args,
        &wine.variables(),
        wine.folder.path(),
    );
    let (http, url) = (client(), format!("http://{address}/metrics"));
    let metrics = wait_until_for(WINE, "a successful poll on /metrics", async || {
        daemon.must_run();
        let metrics = get(&http, &url).await.ok_or("no answer")?;
        if metrics.contains("\nazure_scheduled_events_up 1\n") {
            Ok(metrics)
        } else {
            Err(metrics)
        }
    })
    .await;
    let build = samples(&metrics)
        .into_iter()
        .find(|sample| sample.series.name == "azure_scheduled_events_exporter_build_info");
    let build = build.expect("build info").series.labels;
    assert_eq!(build["version"], env!("CARGO_PKG_VERSION"));
}

/// Asks cargo, which does nothing when the program is up to date.
fn exe() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parts/windows-exe");
    let built = Command::new(&script).output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(
        built.status.success(),
        "{} failed:\n{said}",
        script.display()
    );
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim())
}

/// A prefix of its own, so that nothing of the machine's own Wine is touched.
struct Wine {
    program: PathBuf,
    folder: TempDir,
    prefix: PathBuf,
}

impl Wine {
    fn new() -> Self {
        let program = system(Part::Windows, "/usr/lib/wine/wine64");
        let folder = TempDir::new().unwrap();
        let prefix = folder.path().join("prefix");
        Self {
            program,
            folder,
            prefix,
        }
    }

    fn variables(&self) -> [(&'static str, &OsStr); 2] {
        [
            ("WINEPREFIX", self.prefix.as_os_str()),
            ("WINEDEBUG", OsStr::new("-all")),
        ]
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        // Wine's own server outlives the program: this ends the one of our prefix and no other.
        let server = "/usr/lib/wine/wineserver64";
        Command::new(server)
            .arg("-k")
            .envs(self.variables())
            .status()
            .ok();
    }
}
