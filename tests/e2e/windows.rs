//! The Windows build of the exporter runs under Wine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::support::{Daemon, Tool, client, get, samples, system, wait_until_for};

/// Wine creates its prefix before the program starts.
const WINE_DEADLINE: Duration = Duration::from_mins(5);

#[tokio::test]
async fn demo_answers_metrics_on_windows() {
    let wine = Wine::new();
    let exe = exe();
    let args = [
        exe.as_os_str(),
        OsStr::new("demo"),
        OsStr::new("--web.listen-address=127.0.0.1:0"),
    ];
    let mut daemon = Daemon::start_with(
        "exporter.exe",
        &wine.program,
        args,
        &wine.variables(),
        wine.folder.path(),
    );
    let address = daemon.logged_address(WINE_DEADLINE).await;
    let (http, url) = (client(), format!("http://{address}/metrics"));
    let metrics = wait_until_for(WINE_DEADLINE, "a successful poll on /metrics", async || {
        daemon.assert_running();
        let metrics = get(&http, &url).await.ok_or("no response")?;
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

/// Builds it, which takes no time when it is up to date.
fn exe() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/windows-exe");
    let built = Command::new(&script).output().unwrap();
    let log = String::from_utf8_lossy(&built.stderr);
    assert!(
        built.status.success(),
        "{} failed:\n{log}",
        script.display()
    );
    PathBuf::from(String::from_utf8(built.stdout).unwrap().trim())
}

/// Wine with a prefix in a temporary directory.
struct Wine {
    program: PathBuf,
    folder: TempDir,
    prefix: PathBuf,
}

impl Wine {
    fn new() -> Self {
        let program = system(Tool::Windows, "/usr/lib/wine/wine64");
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
        // Wine's server outlives the program; this ends the server of our prefix only.
        let server = "/usr/lib/wine/wineserver64";
        Command::new(server)
            .arg("-k")
            .envs(self.variables())
            .status()
            .ok();
    }
}
