//! The program under test, as a person starts it.

use std::path::Path;

use super::{Daemon, client, free_port, get, wait_until};

/// One running process of ours.
pub(crate) struct Exporter {
    pub(crate) address: String,
    daemon: Daemon,
}

impl Exporter {
    /// `demo`, from the moment when an event of this VM is on `/metrics`.
    pub(crate) async fn demo(folder: &Path, flags: &[&str]) -> Self {
        let sign = "azure_scheduled_event_not_before_timestamp_seconds{";
        Self::start("demo", flags, folder, "/metrics", sign).await
    }

    /// `simulate`, from the moment when its page is there.
    pub(crate) async fn simulator(folder: &Path, flags: &[&str]) -> Self {
        Self::start("simulate", flags, folder, "/", "</html>").await
    }

    /// The exporter itself, from its first good poll.
    pub(crate) async fn run(address: String, flags: &[&str], folder: &Path) -> Self {
        let sign = "\nazure_scheduled_events_up 1";
        Self::start_at(address, "", flags, folder, "/metrics", sign).await
    }

    async fn start(
        command: &'static str,
        flags: &[&str],
        folder: &Path,
        path: &str,
        sign: &str,
    ) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        Self::start_at(address, command, flags, folder, path, sign).await
    }

    async fn start_at(
        address: String,
        command: &'static str,
        flags: &[&str],
        folder: &Path,
        path: &str,
        sign: &str,
    ) -> Self {
        let listen = format!("--web.listen-address={address}");
        let program = Path::new(env!("CARGO_BIN_EXE_azure-scheduled-events-exporter"));
        let command_or_none = (!command.is_empty()).then_some(command);
        let args = command_or_none
            .into_iter()
            .chain([listen.as_str()])
            .chain(flags.iter().copied());
        let name = command_or_none.unwrap_or("exporter");
        let daemon = Daemon::start(name, program, args, folder);
        let mut exporter = Self { address, daemon };
        let http = client();
        wait_until(sign, async || {
            exporter.daemon.must_run();
            let text = get(&http, &exporter.url(path)).await?;
            text.contains(sign).then_some(())
        })
        .await;
        exporter
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}
