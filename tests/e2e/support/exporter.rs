//! The program under test, as a user starts it.

use std::{ffi::OsStr, fs, net::Ipv4Addr, path::Path};

use serde_json::{Value, json};

use super::{DEADLINE, Daemon, client, get, wait_until};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_azure-scheduled-events-exporter");
const LISTEN: &str = "--web.listen-address=";
const ANY_PORT: &str = "--web.listen-address=127.0.0.1:0";

/// One running process.
pub(crate) struct Exporter {
    pub(crate) address: String,
    daemon: Daemon,
}

impl Exporter {
    /// `demo`, once an event of this VM is on `/metrics`.
    pub(crate) async fn demo(folder: &Path, flags: &[&str]) -> Self {
        let flags = [&["demo", ANY_PORT], flags].concat();
        let daemon = Daemon::start("demo", Path::new(PROGRAM), flags, folder);
        let demo = Self::of(daemon).await;
        demo.until("azure_scheduled_event_not_before_timestamp_seconds{")
            .await;
        demo
    }

    /// `simulate`, once its page is served.
    pub(crate) async fn simulator(folder: &Path, flags: &[&str]) -> Self {
        let flags = [&["simulate", ANY_PORT], flags].concat();
        let mut daemon = Daemon::start("simulate", Path::new(PROGRAM), flags, folder);
        let address = daemon.listening_on(Ipv4Addr::LOCALHOST).await.to_string();
        let simulator = Self { address, daemon };
        simulator.wait_for("/", "</html>").await;
        simulator
    }

    /// The exporter of a VM of the simulated Azure, once a poll has succeeded. Its files are in a folder of its own.
    pub(crate) async fn of_vm(
        azure: &Self,
        vm: &str,
        flags: &[&str],
        variables: &[(&str, &str)],
        folder: &Path,
    ) -> Self {
        let home = folder.join(vm);
        fs::create_dir_all(&home).unwrap();
        let mut args = vec![
            format!("--imds.url={}", azure.url("")),
            format!("--vm.name={vm}"),
            format!("--state.directory={}", home.join("state").display()),
        ];
        if !flags.iter().any(|flag| flag.starts_with(LISTEN)) {
            args.push(ANY_PORT.to_owned());
        }
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let variables = variables.iter();
        let variables: Vec<_> = variables
            .map(|(name, value)| (*name, OsStr::new(*value)))
            .collect();
        let program = Path::new(PROGRAM);
        Self::of(Daemon::start_with(
            "exporter", program, args, &variables, &home,
        ))
        .await
    }

    /// Waits until a poll has succeeded.
    pub(crate) async fn of(mut daemon: Daemon) -> Self {
        let address = daemon.logged_address(DEADLINE).await;
        let mut exporter = Self { address, daemon };
        exporter.until("\nazure_scheduled_events_up 1").await;
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

    /// Waits until the log has this text so many times: another thread writes it.
    pub(crate) async fn until_logged(&self, text: &str, count: usize) {
        wait_until(text, async || {
            (self.log().matches(text).count() == count).then_some(())
        })
        .await;
    }

    pub(crate) fn log(&self) -> String {
        self.daemon.log()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Starts a scenario of the simulated Azure now.
    pub(crate) async fn play(&self, scenario: Value) {
        let body = json!({ "scenario": scenario });
        self.control("/simulator/start", body).await;
    }

    /// Ends all events of the simulated Azure.
    pub(crate) async fn clear(&self) {
        self.control("/simulator/clear", Value::Null).await;
    }

    async fn control(&self, path: &str, body: Value) {
        let request = client().post(self.url(path)).body(body.to_string());
        let request = request.header("content-type", "application/json");
        let response = request.send().await.unwrap();
        assert!(
            response.status().is_success(),
            "{}",
            response.text().await.unwrap()
        );
    }
}
