//! The program under test, as a user starts it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use super::{DEADLINE, Daemon, client, get, wait_until};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_azure-scheduled-events-exporter");

/// One running process.
pub(crate) struct Exporter {
    pub(crate) address: String,
    daemon: Daemon,
}

impl Exporter {
    /// `demo`, once an event of this VM is on `/metrics`.
    pub(crate) async fn demo(folder: &Path, flags: &[&str]) -> Self {
        let sign = "azure_scheduled_event_not_before_timestamp_seconds{";
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        Self::start(listen, "demo", flags, folder, "/metrics", sign).await
    }

    /// `simulate`, once its page is served.
    pub(crate) async fn simulator(folder: &Path, flags: &[&str]) -> Self {
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        Self::start(listen, "simulate", flags, folder, "/", "</html>").await
    }

    /// The exporter on `listen`, once a poll has succeeded.
    pub(crate) async fn run(listen: SocketAddr, flags: &[&str], folder: &Path) -> Self {
        let sign = "\nazure_scheduled_events_up 1";
        Self::start(listen, "", flags, folder, "/metrics", sign).await
    }

    /// [`Self::run`] as the last arguments of a command for the shell.
    pub(crate) async fn run_by(command: &str, flags: &[&str], folder: &Path) -> Self {
        let script = folder.join("start");
        fs::write(&script, format!("exec {command} {PROGRAM} \"$@\"\n")).unwrap();
        let flags = [
            &[script.to_str().unwrap(), "--web.listen-address=127.0.0.1:0"],
            flags,
        ]
        .concat();
        let daemon = Daemon::start("exporter", Path::new("/bin/sh"), flags, folder);
        Self::reached(daemon, "", "/metrics", "\nazure_scheduled_events_up 1").await
    }

    /// Waits until the page at `path` contains `sign`.
    async fn start(
        listen: SocketAddr,
        command: &'static str,
        flags: &[&str],
        folder: &Path,
        path: &str,
        sign: &str,
    ) -> Self {
        let listen = format!("--web.listen-address={listen}");
        let command_or_none = (!command.is_empty()).then_some(command);
        let args = command_or_none
            .into_iter()
            .chain([listen.as_str()])
            .chain(flags.iter().copied());
        let name = command_or_none.unwrap_or("exporter");
        let daemon = Daemon::start(name, Path::new(PROGRAM), args, folder);
        Self::reached(daemon, command, path, sign).await
    }

    async fn reached(mut daemon: Daemon, command: &str, path: &str, sign: &str) -> Self {
        let address = match command {
            "simulate" => daemon.listening_on(Ipv4Addr::LOCALHOST).await.to_string(),
            _ => daemon.logged_address(DEADLINE).await,
        };
        let mut exporter = Self { address, daemon };
        exporter.daemon.assert_running();
        exporter.wait_for(path, sign).await;
        exporter.daemon.assert_running();
        exporter
    }

    /// Waits until `/metrics` contains `sign`.
    pub(crate) async fn until(&self, sign: &str) {
        self.wait_for("/metrics", sign).await;
    }

    async fn wait_for(&self, path: &str, sign: &str) {
        let http = client();
        wait_until(sign, async || {
            let text = get(&http, &self.url(path)).await?;
            text.contains(sign).then_some(())
        })
        .await;
    }

    pub(crate) fn log(&self) -> String {
        self.daemon.log()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
