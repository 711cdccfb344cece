//! The Windows service, by its own commands and by `sc`.

use std::{fs, net::Ipv4Addr, path::Path};

use super::{Ended, WINE_DEADLINE, Wine, exe};
use crate::support::{client, exporter::Exporter, get, samples, wait_until, wait_until_for};

pub(super) const NAME: &str = "azure-scheduled-events-exporter";
pub(super) const PROGRAM: &str = r"C:\Program Files\exporter\azure-scheduled-events-exporter.exe";
pub(super) const SERVICE: &str =
    r"HKLM\SYSTEM\CurrentControlSet\Services\azure-scheduled-events-exporter";
const EVENT_SOURCE: &str =
    r"HKLM\SYSTEM\CurrentControlSet\Services\EventLog\Application\azure-scheduled-events-exporter";
/// Variables of all services.
pub(super) const ENVIRONMENT: &str =
    r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment";
/// `%ProgramData%` of services under Wine.
const PROGRAM_DATA: &str = "users/Public";
pub(super) const UP: &str = "\nazure_scheduled_events_up 1\n";
const SPOOLED: &str = "\nazure_scheduled_events_spans_spooled 1.0\n";

/// A Wine with the program in `C:\Program Files`, and a simulated Azure with a pending event.
pub(super) struct Windows {
    /// Dropped first: its log is in the folder of Wine.
    azure: Exporter,
    pub(super) wine: Wine,
    /// Of the exporter: a host of its own in place of a port of its own.
    pub(super) address: String,
}

impl Windows {
    pub(super) async fn start() -> Self {
        let wine = Wine::new();
        let azure = Exporter::simulator(wine.folder.path(), &["--scenario=host-maintenance"]).await;
        wine.boot();
        let (exe, folder) = (exe(), wine.path("Program Files/exporter"));
        let stub = "bcryptprimitives.dll";
        let system = wine.path("windows/system32").join(stub);
        fs::copy(exe.with_file_name(stub), system).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::copy(&exe, folder.join(exe.file_name().unwrap())).unwrap();
        // No other simulator listens on its port.
        let port = azure.address.rsplit(':').next().unwrap();
        let [high, low] = port.parse::<u16>().unwrap().to_be_bytes();
        let host = Ipv4Addr::new(127, 1, high, low);
        Self {
            wine,
            azure,
            address: format!("{host}:10169"),
        }
    }

    pub(super) fn flags(&self) -> [String; 2] {
        [
            format!("--imds.url={}", self.azure.url("")),
            format!("--web.listen-address={}", self.address),
        ]
    }

    fn service(&self, arguments: &[&str]) -> Ended {
        self.wine.run(PROGRAM, &[&["service"], arguments].concat())
    }

    fn install(&self, more: &[&str]) -> Ended {
        let [url, listen] = self.flags();
        self.service(&[&["install", &url, &listen], more].concat())
    }

    pub(super) fn sc(&self, arguments: &[&str]) -> Ended {
        self.wine.run(r"C:\windows\system32\sc.exe", arguments)
    }

    /// The status of a service, once it has stopped.
    async fn stopped(&self, name: &str) -> String {
        wait_until_for(WINE_DEADLINE, "the service stops", async || {
            let status = self.sc(&["query", name]).output;
            let is_stopped = status.contains("1  STOPPED");
            if is_stopped { Ok(status) } else { Err(status) }
        })
        .await
    }

    pub(super) fn reg(&self, arguments: &[&str]) -> Ended {
        self.wine.run(r"C:\windows\system32\reg.exe", arguments)
    }

    /// The page of the service, once it contains `sign`.
    pub(super) async fn page(&self, path: &str, sign: &str) -> String {
        let (http, url) = (client(), format!("http://{}{path}", self.address));
        wait_until(sign, async || {
            let page = get(&http, &url).await?;
            page.contains(sign).then_some(page)
        })
        .await
    }
}

/// The event and when it was first seen.
fn first_seen(metrics: &str) -> (String, f64) {
    let name = "azure_scheduled_event_first_seen_timestamp_seconds";
    let mut samples = samples(metrics).into_iter();
    let sample = samples.find(|sample| sample.series.name == name);
    let sample = sample.expect("a pending event");
    (sample.series.labels["event_id"].clone(), sample.value)
}

fn assert_state_kept(folder: &Path, event_id: &str) {
    let state = fs::read_to_string(folder.join("state.json")).unwrap();
    assert!(state.contains(event_id), "{state}");
    let journal = fs::read_to_string(folder.join("journal")).unwrap();
    assert!(journal.contains(event_id), "{journal}");
}

#[tokio::test]
async fn windows_service_starts_at_boot_and_keeps_its_state_over_stop_and_start() {
    let windows = Windows::start().await;
    windows.install(&[]).assert(0, "is installed");
    // Nothing answers: the span of the announcement waits.
    let variable = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let endpoint = "http://127.0.0.1:9";
    windows
        .reg(&["add", ENVIRONMENT, "/v", variable, "/d", endpoint])
        .assert(0, "");
    windows.wine.reboot();
    windows.page("/metrics", UP).await;
    windows.sc(&["query", NAME]).assert(0, "4  RUNNING");
    let seen = first_seen(&windows.page("/metrics", SPOOLED).await);

    // Wine prints the state after the answer: the service may have ended by then.
    let stopping = windows.sc(&["stop", NAME]);
    let states = ["3  STOP_PENDING", "1  STOPPED"];
    let state = states
        .iter()
        .find(|state| stopping.output.contains(**state));
    stopping.assert(0, state.unwrap_or(&states[0]));
    let stopped = windows.stopped(NAME).await;
    assert!(stopped.contains("WIN32_EXIT_CODE    : 0 "), "{stopped}");
    let state = windows.wine.path(PROGRAM_DATA).join(NAME);
    assert_state_kept(&state, &seen.0);

    windows.sc(&["start", NAME]).assert(0, "");
    windows.page("/metrics", UP).await;
    let restored = windows.page("/metrics", SPOOLED).await;
    assert_eq!(first_seen(&restored), seen);

    windows.service(&["uninstall"]).assert(0, "is uninstalled");
    windows.sc(&["query", NAME]).assert(1, "");
    windows.reg(&["query", EVENT_SOURCE]).assert(1, "");
    assert_state_kept(&state, &seen.0);
    let events = windows.wine.services_log();
    // Type, category, ID; then the text.
    for (report, text) in [
        ("0x0004,0x0000,0x0000000a,", "message=starting"),
        ("0x0002,0x0000,0x00000064,", "transition=announced"),
        ("0x0004,0x0000,0x000000c9,", "\\\"polling started\\\""),
        ("0x0004,0x0000,0x00000001,", "\\\"restored state\\\""),
        ("0x0004,0x0000,0x0000000b,", "\\\"shutting down\\\""),
    ] {
        let reports = events.split("fixme:advapi:ReportEventW (");
        assert!(
            reports
                .clone()
                .any(|it| it.contains(report) && it.contains(text)),
            "{report} {text} in {events}"
        );
    }
}

#[tokio::test]
async fn windows_service_is_installed_with_its_flags_and_settings() {
    let windows = Windows::start().await;
    windows
        .service(&["uninstall"])
        .assert(1, "(os error 1060); `service install` installs it");
    windows.install(&["--imds.poll-interval=1ms"]).assert(
        64,
        "'1ms' for '--imds.poll-interval <DURATION>': out of range",
    );
    windows
        .install(&["--web.config.file=web.yml"])
        .assert(64, "--web.config.file: \"web.yml\" is relative");
    windows.reg(&["query", SERVICE]).assert(1, "");

    windows.install(&[]).assert(0, "is installed");
    let [url, listen] = windows.flags();
    let settings = windows.reg(&["query", SERVICE]);
    for setting in [
        &format!("ImagePath    REG_SZ    \"{PROGRAM}\" {url} {listen}\r\n"),
        "ObjectName    REG_SZ    NT AUTHORITY\\LocalService\r\n",
        "Start    REG_DWORD    0x2\r\n",
        "PreshutdownTimeout    REG_DWORD    0x4e20\r\n",
        "Description    REG_SZ    Exports the Azure Scheduled Events",
    ] {
        settings.assert(0, setting);
    }
    // Wine does not keep the actions after a failure, and says so.
    let log = windows.wine.services_log();
    assert!(
        log.contains("SERVICE_CONFIG_FAILURE_ACTIONS not implemented: period 3600"),
        "{log}"
    );
    windows
        .reg(&["query", EVENT_SOURCE])
        .assert(0, r"REG_EXPAND_SZ    %SystemRoot%\System32\EventCreate.exe");
    assert!(windows.wine.path("ProgramData").join(NAME).is_dir());

    // A space and a backslash before a quote.
    let state = r"--state.directory=C:\state of the exporter\";
    windows
        .install(&[state, "--web.telemetry-path=/other"])
        .assert(0, "is changed");
    let quoted = format!("{listen} \"{state}\\\" --web.telemetry-path=/other\r\n");
    windows.reg(&["query", SERVICE]).assert(0, &quoted);
    windows.sc(&["start", NAME]).assert(0, "");
    windows.page("/other", UP).await;
    windows.service(&["uninstall"]).assert(0, "is uninstalled");
    let saved = windows.wine.path("state of the exporter/state.json");
    assert!(saved.is_file(), "{}", saved.display());
}

#[tokio::test]
async fn windows_service_with_invalid_flags_stops_with_code_64() {
    let windows = Windows::start().await;
    let command = format!("\"{PROGRAM}\" --bogus=1");
    windows
        .sc(&["create", "invalid", "binPath=", &command])
        .assert(0, "");
    windows.sc(&["start", "invalid"]).assert(0, "");
    let stopped = windows.stopped("invalid").await;
    assert!(stopped.contains("WIN32_EXIT_CODE    : 1066 "), "{stopped}");
    assert!(stopped.contains("SERVICE_EXIT_CODE  : 64 "), "{stopped}");
    let events = windows.wine.services_log();
    let event = "err:eventlog:ReportEventW L\"unexpected argument '--bogus' found";
    assert!(events.contains(event), "{events}");
}
