//! The command line: exit codes, error messages, output, signals.

use std::{fs, process::Command};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    support::{
        FakeImds, Pki, RefusingPort, Reply,
        process::{Ended, PROGRAM, Process, exporter, page},
    },
    tidy::documents::code_blocks,
};

const FREEZE: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"Tue, 17 Nov 2026 09:15:42 GMT","Description":"Host server is undergoing maintenance.","EventSource":"Platform","DurationInSeconds":9}]}"#;
const NOTHING: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const ANY_PORT: &str = "--web.listen-address=127.0.0.1:0";

async fn run(arguments: &[&str]) -> Ended {
    Process::start(arguments).end().await
}

async fn assert_refused(arguments: &[&str], code: i32, words: &[&str]) {
    assert_refusal(arguments, &run(arguments).await, code, words);
}

/// Expects the exit code, nothing on stdout, and one line on stderr, besides the log, that contains all of `words`.
fn assert_refusal(arguments: &[&str], ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
    assert_eq!(ended.stdout, "", "{arguments:?}");
    let lines = ended.log.lines().filter(|it| !it.contains(" level="));
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 1, "{arguments:?}: {}", ended.log);
    for word in words {
        assert!(
            lines[0].contains(word),
            "{arguments:?}: {:?} lacks {word:?}",
            lines[0]
        );
    }
}

/// Arguments => words of the error. Those of the parser itself are rows of a unit test of `cli`.
const REFUSED: &str = r#"
    --imds.url=ftp://x => --imds.url | ftp://x | http
    --imds.url=nowhere => --imds.url | nowhere
    --imds.poll-interval=100ms => --imds.poll-interval | 100ms | 200ms
    --imds.poll-interval=1.5s => --imds.poll-interval | "1.5s" | 1500ms
    --imds.poll-interval=2h => '2h' for '--imds.poll-interval | out of range | 200ms to 1h
    --imds.timeout=0 => --imds.timeout | use a duration
    --imds.api-version=2021-02-29 => '2021-02-29' for '--imds.api-version | such as 2020-07-01
    --imds.api-version=latest => 'latest' | YYYY-MM-DD
    --imds.api-version= => --imds.api-version | YYYY-MM-DD
    --vm.name= => --vm.name | is empty
    --web.telemetry-path=/ => '/' for '--web.telemetry-path | is reserved | /metrics
    --web.telemetry-path=/-/ready => --web.telemetry-path | /-/ready | is reserved
    --web.telemetry-path=metrics => 'metrics' for '--web.telemetry-path | start with /
    --web.listen-address=localhost => --web.listen-address | localhost | HOST:PORT
    --web.listen-address=none --web.config.file=a.yml => --web.config.file: has no effect | none
    --web.listen-address=none --web.telemetry-path=/m => --web.telemetry-path: has no effect | none
    --web.listen-address=none --serving.lead-time=1m => --serving.lead-time: has no effect | none
    --serving.lead-time=8d => '8d' for '--serving.lead-time | out of range | from 0s to 7d
    --alertmanager.ca-file=x.pem => not provided: --alertmanager.url | --alertmanager.ca-file
    --state.directory= => --state.directory: is empty | $STATE_DIRECTORY
    simulate --scenario=no-such-file.json => --scenario | no-such-file.json
    simulate --vm.name= => --vm.name | is empty
    simulate --vm.os-type=bsd => --vm.os-type | bsd | linux, windows
    simulate --scenario=no-such-scenario => --scenario | no-such-scenario
    simulate --speed=0 => --speed | 0.01 to 100000
    demo --web.listen-address=0.0.0.0:0 => --web.listen-address | 0.0.0.0:0 | loopback
    demo --web.listen-address=:0 => --web.listen-address | ":0" | 127.0.0.1
    --web.listen-address=none => none needs another output
    --web.listen-address=none --web.listen-address=:0 => none excludes all addresses
    --textfile.path=FOLDER/missing/events.prom => --textfile.path | missing/events.prom cannot be written
    --textfile.path=FOLDER/directory.prom => directory.prom cannot be written
    --textfile.path=FOLDER/events.txt => use a name that ends in .prom
    --alertmanager.url=alertmanager:9093 => --alertmanager.url: "alertmanager:9093" is neither
    --alertmanager.url=http://u:hunter2@h => --alertmanager.basic-auth-file
    URL --alertmanager.basic-auth-file=a --alertmanager.bearer-token-file=b => cannot be used with
    URL --alertmanager.bearer-token-file=/nowhere/token => --alertmanager.bearer-token-file: /nowhere/token
    HTTPS --alertmanager.ca-file=/nowhere/ca.pem => --alertmanager.ca-file: /nowhere/ca.pem cannot be read
    HTTPS --alertmanager.bearer-token-file=/dev/zero => bearer-token-file: /dev/zero is not a regular file
    HTTPS CA CERT => not provided: --alertmanager.key-file | --alertmanager.cert-file
    HTTPS CA KEY => not provided: --alertmanager.cert-file | --alertmanager.key-file
    HTTPS CA KEY --alertmanager.cert-file=FOLDER/reversed.pem => has its certificates in the wrong order
    HTTPS CA CERT --alertmanager.key-file=FOLDER/encrypted.pem => encrypted.pem is encrypted with a passphrase
    URL CERT KEY => --alertmanager.cert-file: has no effect with http
    URL --alertmanager.header=X-Scope-OrgID => --alertmanager.header: number 1 has no colon: write it as NAME: VALUE
    URL --alertmanager.header=a␣b:␣hunter2 => --alertmanager.header: "a b" is no name of a header
    URL --alertmanager.header=a:␣hunter2␇ => --alertmanager.header: "a" has no value, or one with control characters
    URL --alertmanager.header=a:␣1 --alertmanager.header=A:␣hunter2 => --alertmanager.header: "A" was given before
    URL --alertmanager.header=Host:␣hunter2 => --alertmanager.header: "Host" cannot be set
    URL --alertmanager.header=Content-Encoding:␣gzip => --alertmanager.header: "Content-Encoding" cannot be set
    --alertmanager.header=a:␣hunter2 => not provided: --alertmanager.url | --alertmanager.header
    --alertmanager.external-label=a=b => not provided: --alertmanager.url | --alertmanager.external-label
    --alertmanager.bearer-token-file=x => not provided: --alertmanager.url | --alertmanager.bearer-token-file
    URL LABEL=cluster => --alertmanager.external-label: "cluster" has no value: write it as NAME=VALUE
    URL LABEL=cluster= => "cluster=" has an empty value
    URL LABEL==a => "=a" has no name
    URL LABEL=event_id=a => "event_id=a" has a reserved name
    URL LABEL=owner=a --vm.owner-tag=team => --alertmanager.external-label: owner is the label of --vm.owner-tag
    --vm.owner-tag= => no tag has this name
    --vm.owner-tag=a/b => no tag has this name
    URL LABEL=__name__=a => "__name__=a" has a reserved name
    URL LABEL=cluster=a␇ => has control characters
    URL LABEL=cl␇uster=a => has control characters
    URL LABEL=cluster=a LABEL=cluster=b => "cluster=b" has a name that was given before
    approve => EVENT_ID
    approve EMPTY => EVENT_ID
    approve 1 --imds.url=nowhere => --imds.url
    --approve.delay=5s => not provided: <--approve.user-events|--approve.freeze-below | --approve.delay
    --approve.dry-run => not provided: <--approve.user-events|--approve.freeze-below | --approve.dry-run
    --approve.freeze-below=0 => --approve.freeze-below
    --approve.freeze-below=1h => --approve.freeze-below
    --approve.user-events --approve.delay=1d => --approve.delay
    --approve.drain=30s => not provided: <--approve.user-events|--approve.freeze-below | --approve.drain
    --approve.user-events --approve.drain=11m => --approve.drain
    --approve.user-events --approve.delay=10m --approve.drain=6m => --approve.drain
    --approve.user-events --imds.api-version=2019-04-01 => --approve.user-events
    --approve.freeze-below=9s --imds.api-version=2019-08-01 => --approve.freeze-below
    --approve.for=group => not provided: --approve.user-events | --approve.for
    --approve.for=group --approve.freeze-below=9s => not provided: --approve.user-events | --approve.for
    --approve.user-events --approve.for=group --approve.drain=60s => --approve.delay: 1m is not longer than --approve.drain=1m
    --approve.for=all => [possible values: self, group]
    watch --url=nowhere => --url: "nowhere" is not a URL
    watch --url=http://me:hunter2@localhost => use --user-file
    watch --user-file=/nonexistent/user => --user-file: /nonexistent/user cannot be read
    watch --ca-file=/nonexistent/ca => --ca-file: /nonexistent/ca
    watch --since=/nonexistent/file => --since: /nonexistent/file
"#;

#[tokio::test]
async fn error_for_an_invalid_flag_is_one_line_with_flag_value_and_alternative() {
    let pki = Pki::new();
    let client = fs::read_to_string(pki.path("client.pem")).unwrap();
    pki.write("reversed.pem", &format!("{}{client}", pki.authority()));
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    pki.write("encrypted.pem", encrypted);
    fs::create_dir(pki.path("directory.prom")).unwrap();
    let ca = pki.path("ca.pem");
    let expanded = [
        ("CA", "--alertmanager.ca-file=FOLDER/ca.pem"),
        ("CERT", "--alertmanager.cert-file=FOLDER/client.pem"),
        ("KEY", "--alertmanager.key-file=FOLDER/client-key.pem"),
        ("URL", "--alertmanager.url=http://127.0.0.1:9"),
        ("HTTPS", "--alertmanager.url=https://127.0.0.1:9"),
        ("EMPTY", ""),
    ];
    for row in REFUSED.lines().filter(|row| !row.is_empty()) {
        let (arguments, words) = row.split_once(" => ").unwrap();
        let expand = |argument: &str| {
            let whole = expanded.iter().find(|(name, _)| *name == argument);
            let argument = whole.map_or(argument, |(_, argument)| argument);
            argument
                .replace("FOLDER", ca.strip_suffix("/ca.pem").unwrap())
                .replace("LABEL", "--alertmanager.external-label")
                .replace('␣', " ")
                .replace('␇', "\u{7}")
        };
        let mut arguments: Vec<_> = arguments.split_whitespace().map(expand).collect();
        if arguments
            .iter()
            .all(|it| it.starts_with("--") && !it.contains("listen-address"))
        {
            arguments.push(ANY_PORT.to_owned());
        }
        let ended = Process::start(&arguments).end().await;
        let words: Vec<_> = words.split(" | ").collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        assert_refusal(&arguments, &ended, 64, &words);
        assert!(!ended.log.contains("hunter2"), "{ended:?}");
    }
}

#[tokio::test]
async fn port_in_use_is_not_a_usage_error() {
    let occupied = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = occupied.local_addr().unwrap().to_string();
    let flag = format!("--web.listen-address={address}");
    assert_refused(
        &[&flag],
        1,
        &["--web.listen-address", &address, "choose another port"],
    )
    .await;
}

#[tokio::test]
async fn error_for_an_address_of_another_machine_does_not_name_the_port() {
    // Class E, reserved by RFC 1112.
    let flag = "--web.listen-address=240.0.0.1:0";
    let words = [
        "--web.listen-address",
        "240.0.0.1:0",
        "that this machine has",
    ];
    assert_refused(&[flag], 1, &words).await;
}

#[tokio::test]
async fn error_message_does_not_repeat_itself() {
    let refusing = RefusingPort::reserve();
    let unreachable = format!("--imds.url={}", refusing.base());
    let file = tempfile::NamedTempFile::new().unwrap();
    let unusable = format!("--state.directory={}", file.path().display());
    for (arguments, code, words) in [
        (["list", &unreachable], 1, "no connection to"),
        ([&unusable, ANY_PORT], 64, "cannot be used"),
    ] {
        let ended = run(&arguments).await;
        let last = ended.log.lines().last().unwrap_or_default();
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert_eq!(last.matches(words).count(), 1, "{last}");
    }
}

/// Behind a proxy, which is not there, they ask no other machine.
#[tokio::test]
async fn flags_of_the_service_that_a_page_shows_are_valid() {
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    for block in code_blocks(&["ARGS=\""]) {
        let (_, flags) = block.split_once("ARGS=\"").unwrap();
        let flags = flags.split('"').next().unwrap().split_whitespace();
        let mut command = exporter(&imds);
        command.args(flags).env("HTTPS_PROXY", "http://127.0.0.1:9");
        let mut exporter = Process::start_as(&mut command);
        exporter.says("polling started").await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn otel_variable_that_is_not_utf8_is_a_usage_error() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    for variable in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_RESOURCE_ATTRIBUTES"] {
        for arguments in [&[ANY_PORT][..], &["demo", ANY_PORT]] {
            let mut command = Command::new(PROGRAM);
            command
                .args(arguments)
                .env(variable, OsStr::from_bytes(b"http://127.0.0.1:9/\xff"));
            let ended = Process::start_as(&mut command).end().await;
            assert_refusal(arguments, &ended, 64, &[variable, "not valid UTF-8"]);
        }
    }
}

#[tokio::test]
async fn help_groups_the_flags_and_warns_about_the_side_effect() {
    let help = run(&["--help"]).await;
    assert_eq!((help.code, help.log.as_str()), (Some(0), ""));
    for part in [
        "Web:",
        "Azure Instance Metadata Service (IMDS):",
        "Events:",
        "State:",
        "Log:",
        "Warning: polling enables Scheduled Events",
        "--imds.poll-interval",
        "[default: 1s]",
        "demo",
        "simulate",
        "list",
    ] {
        assert!(help.stdout.contains(part), "{part}: {}", help.stdout);
    }
    for command in ["list", "approve"] {
        let help = run(&[command, "--help"]).await;
        let words: Vec<_> = help.stdout.split_whitespace().collect();
        let expected = "one request enables Scheduled Events for the whole availability set or placement group, for a \
                        day. A restart requested by a user then waits for an approval or for NotBefore, up to 15 minutes.";
        assert!(words.join(" ").contains(expected), "{}", help.stdout);
    }
}

#[tokio::test]
async fn version_names_revision_and_compiler() {
    let version = run(&["--version"]).await;
    assert_eq!(version.code, Some(0));
    for part in [env!("CARGO_PKG_VERSION"), "revision", "rustc"] {
        assert!(version.stdout.contains(part), "{version:?}");
    }
    assert_eq!(run(&["version"]).await.stdout, version.stdout);
}

#[tokio::test]
async fn help_is_a_command_too() {
    let of_command = run(&["help", "list"]).await;
    assert_eq!(of_command.code, Some(0), "{of_command:?}");
    assert_eq!(of_command.stdout, run(&["list", "--help"]).await.stdout);
    assert_eq!(run(&["help"]).await.stdout, run(&["--help"]).await.stdout);
}

async fn list(imds: &FakeImds, output: &str) -> Ended {
    let url = format!("--imds.url={}", imds.base());
    run(&["list", &url, output]).await
}

async fn list_json(document: &str) -> (Value, Ended) {
    let imds = FakeImds::standing(Reply::ok(document)).await;
    let listed = list(&imds, "--output=json").await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    (serde_json::from_str(&listed.stdout).unwrap(), listed)
}

#[tokio::test]
async fn list_prints_when_an_event_can_start_or_could() {
    let listed = async |date: &str| {
        let document = FREEZE.replace("Tue, 17 Nov 2026", date);
        let imds = FakeImds::standing(Reply::ok(document)).await;
        list(&imds, "--output=table").await.stdout
    };
    let past = listed("Fri, 31 Dec 1999").await;
    assert!(past.contains(" 1999-12-31T09:15:42Z  overdue "), "{past}");
    let future = listed("Tue, 31 Dec 2999").await;
    assert!(future.contains(" 2999-12-31T09:15:42Z  3"), "{future}");
}

#[tokio::test]
async fn list_cuts_a_cell_of_more_than_65535_characters() {
    let long = "x".repeat(70_000);
    for (member, name) in [
        ("Freeze", "TYPE"),
        ("Platform", "SOURCE"),
        ("web_0", "RESOURCES"),
    ] {
        let document = FREEZE.replacen(&format!("\"{member}\""), &format!("\"{long}\""), 1);
        assert!(document.len() > 70_000, "{member}");
        let imds = FakeImds::standing(Reply::ok(&document)).await;
        let table = list(&imds, "--output=table").await;
        assert_eq!(table.code, Some(0), "{name}: {}", table.log);
        assert!(table.stdout.contains(&"x".repeat(256)), "{name}");
        assert!(!table.stdout.contains(&"x".repeat(257)), "{name}");
    }
}

/// Numbers that fit no 64-bit float and deep nesting stop the decoders of Go, jq and others.
#[tokio::test]
async fn list_prints_json_that_every_decoder_reads() {
    let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let unusual = format!(
        r#""A":{},"B":{nested},"C":{}{},"D":[1e308],"#,
        "7".repeat(400),
        "[".repeat(300),
        "]".repeat(300)
    );
    let document = FREEZE.replacen("\"EventId\"", &format!("{unusual}\"EventId\""), 1);
    let (parsed, listed) = list_json(&document).await;
    let event = parsed["events"][0].as_object().unwrap();
    assert_eq!(event["D"], json!([1e308]));
    for dropped in ["A", "B", "C"] {
        assert!(!event.contains_key(dropped), "{dropped}");
    }
    assert!(listed.log.contains("kind=unknown_member"), "{}", listed.log);
}

#[tokio::test]
async fn list_without_pending_events_succeeds() {
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let table = list(&imds, "--output=table").await;
    assert_eq!(table.code, Some(0));
    let no_events = "No events yet: they may take five minutes to appear after the first request of any client.\n";
    assert_eq!(table.stdout, no_events);
    let (listing, json) = list_json(NOTHING).await;
    assert_eq!(listing["events"], json!([]));
    assert_eq!(listing["warming_up"], Value::Null);
    assert!(json.log.contains(no_events), "{}", json.log);
}

#[tokio::test]
async fn control_bidi_and_zero_width_characters_are_made_visible_in_logs() {
    let document = FREEZE
        .replace(
            "Host server is",
            r"Host\u001b[31m\u0000server\tis\n\u202enow",
        )
        .replacen("Freeze", r"Fre\u2066\u200beze", 1)
        .replacen("Platform", r"Plat\u009bform", 1);
    let imds = FakeImds::standing(Reply::ok(&document)).await;
    imds.identity(Reply::ok(r#"{"name":"web_0","vmId":"\u200f1"}"#));
    for format in ["--log.format=logfmt", "--log.format=json"] {
        let url = format!("--imds.url={}", imds.base());
        let mut exporter = Process::start([ANY_PORT, format, &url]);
        let identity = exporter.says("VM identity resolved").await;
        assert!(identity.contains("\u{fffd}1"), "{identity}");
        let line = exporter.says("scheduled event").await;
        for shown in [
            "Host\u{fffd}[31m\u{fffd}server is \u{fffd}now",
            "Fre\u{fffd}\u{fffd}eze",
            "Plat\u{fffd}form",
        ] {
            assert!(line.contains(shown), "{shown}: {line}");
        }
    }
}

#[tokio::test]
async fn first_signal_shuts_down_in_order() {
    for signal in ["TERM", "INT"] {
        let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
        let mut exporter = Process::start([ANY_PORT, &format!("--imds.url={}", imds.base())]);
        let address = exporter.address().await;
        assert!(page(&address, "/-/healthy").await.is_some());
        exporter.signal(signal);
        let ended = exporter.end().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.log.contains("shutting down"), "{}", ended.log);
    }
}

#[tokio::test]
async fn any_date_is_an_api_version_and_the_log_says_what_its_documents_are_assumed_to_contain() {
    for (version, expected, missing) in [
        ("2027-02-28", "treated_as=2020-07-01", None),
        (
            "2019-09-15",
            "treated_as=2019-08-01",
            Some("missing=DurationInSeconds"),
        ),
    ] {
        let imds = FakeImds::of_version(version, Reply::ok(NOTHING)).await;
        let version = format!("--imds.api-version={version}");
        let url = format!("--imds.url={}", imds.base());
        let mut exporter = Process::start([ANY_PORT, &url, &version]);
        let warning = exporter.says("api-version not documented").await;
        assert!(
            warning.contains("level=warn") && warning.contains(expected),
            "{warning}"
        );
        exporter.says("polling started").await;
        let log = exporter.log();
        let old = log.lines().find(|line| line.contains("old api-version"));
        assert_eq!(old.is_some(), missing.is_some(), "{log}");
        assert!(
            missing.is_none_or(|text| old.is_some_and(|line| line.contains(text))),
            "{log}"
        );
    }
}

/// An incomplete request delays the orderly shutdown.
#[tokio::test]
async fn second_signal_exits_immediately() {
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let mut exporter = Process::start([ANY_PORT, &format!("--imds.url={}", imds.base())]);
    let address = exporter.address().await;
    let mut slow = tokio::net::TcpStream::connect(&address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut slow, b"GET /metrics HTTP/1.1\r\n")
        .await
        .unwrap();
    assert!(page(&address, "/-/healthy").await.is_some());
    exporter.signal("TERM");
    exporter.says("shutting down").await;
    exporter.signal("TERM");
    let ended = exporter.end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    drop(slow);
}

#[tokio::test]
async fn demo_needs_no_configuration() {
    let mut demo = Process::start(["demo", ANY_PORT, "--speed=1000"]);
    let started = demo.says("demo started").await;
    let address = demo.address().await;
    let status_page = page(&address, "/").await.unwrap();
    let (_, simulator) = started.split_once("simulated_azure=").unwrap();
    let simulator = simulator.trim_end();
    assert!(status_page.contains(&format!("<a href=\"{simulator}\">")));
    assert!(status_page.contains("Time runs 1000 times faster: 15 minutes take 0.9s."));
    let host = simulator
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let back = format!("<a href=\"http://{address}/\">");
    assert!(page(host, "/").await.unwrap().contains(&back));
    demo.says("polling started").await;
    assert!(!demo.log().contains("polling recovered"), "{}", demo.log());
    // What one poll shows is published before the next one.
    demo.says("transition=started").await;
    let metrics = page(&address, "/metrics").await.unwrap();
    assert!(metrics.contains("azure_scheduled_event_info{"), "{metrics}");
    demo.signal("TERM");
    assert_eq!(demo.end().await.code, Some(0));
}
