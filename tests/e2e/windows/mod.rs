//! The Windows build of the exporter runs under Wine.

mod commands;
mod installer;
mod service;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::support::{Daemon, Tool, client, get, samples, system, wait_until_for};

/// What the event log receives, and what Wine does not do: the settings of services and the rules of the firewall.
const DEBUG: &str =
    "-all,fixme+advapi,err+eventlog,warn+eventlog,trace+eventlog,fixme+service,fixme+netsh";

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
            ("WINEDEBUG", OsStr::new(DEBUG)),
        ]
    }

    /// A file on drive C.
    fn path(&self, path: &str) -> PathBuf {
        self.prefix.join("drive_c").join(path)
    }

    /// Starts Windows with its services, which run until the end of the test.
    fn boot(&self) {
        fs::create_dir_all(&self.prefix).unwrap();
        self.server("-p");
        let log = self.folder.path().join("services.log");
        let log = File::options().create(true).append(true).open(log).unwrap();
        let booted = self.command("cmd", &["/c", "exit"]).stderr(log).status();
        assert!(booted.unwrap().success());
    }

    /// Wine's server outlives a program; this is the one of our prefix only.
    fn server(&self, argument: &str) {
        let mut server = Command::new("/usr/lib/wine/wineserver64");
        server.arg(argument).envs(self.variables()).status().ok();
    }

    /// Ends all programs, without the order of a shutdown, and starts Windows again.
    fn reboot(&self) {
        self.server("-k");
        self.server("-w");
        self.boot();
    }

    /// What the services have written to stderr. With [`DEBUG`], it has what they report to the event log.
    fn services_log(&self) -> String {
        let log = fs::read(self.folder.path().join("services.log")).unwrap();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(program)
            .args(arguments)
            .envs(self.variables())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a Windows program until its end. Its output goes to a file: programs that it starts would keep a pipe open.
    fn run(&self, program: &str, arguments: &[&str]) -> Ended {
        let path = self.folder.path().join("output");
        let output = File::create(&path).unwrap();
        let status = self
            .command(program, arguments)
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .status();
        Ended {
            command: format!("{program} {arguments:?}"),
            code: status.unwrap().code(),
            output: String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned(),
        }
    }
}

/// A Windows program that has ended.
struct Ended {
    command: String,
    code: Option<i32>,
    /// stdout and stderr.
    output: String,
}

impl Ended {
    fn assert(&self, code: i32, output: &str) {
        let Self { command, .. } = self;
        assert!(
            self.code == Some(code) && self.output.contains(output),
            "{command}: {code} and {output:?} expected: {:?}, {}",
            self.code,
            self.output
        );
    }
}

impl Drop for Wine {
    fn drop(&mut self) {
        self.server("-k");
    }
}
