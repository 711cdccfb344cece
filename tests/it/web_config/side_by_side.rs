//! The same files and requests with exporter-toolkit 0.20 and with the exporter. Each difference is in the table of
//! docs/http.md.

use std::{fmt::Write as _, path::PathBuf, process::Command};

use rustls::version::{TLS12, TLS13};
use tokio::task::JoinSet;

use super::{
    SERVER_NAMES, TLS, basic,
    client::{Client, Tls},
    hash,
};
use crate::support::{
    Pki,
    process::{PROGRAM, Process},
};

const HEADERS: [&str; 4] = [
    "strict-transport-security",
    "x-frame-options",
    "x-xss-protection",
    "www-authenticate",
];
/// Those that the exporter has anyway.
const OWN_HEADERS: [&str; 2] = ["content-security-policy", "x-content-type-options"];

/// A file, and the row of docs/http.md about a difference.
struct Case {
    config: String,
    difference: Option<&'static str>,
}

fn same(config: impl Into<String>) -> Case {
    Case {
        config: config.into(),
        difference: None,
    }
}

fn differs(config: impl Into<String>, row: &'static str) -> Case {
    Case {
        config: config.into(),
        difference: Some(row),
    }
}

/// `tls_server_config` with these lines.
fn tls(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(|line| format!("  {line}\n")).collect();
    let lines = lines.concat();
    format!("{TLS}{lines}")
}

fn headers(lines: &str) -> String {
    format!("http_server_config: {{headers: {{{lines}}}}}\n")
}

fn users(hash: &str) -> String {
    format!("basic_auth_users:\n  bob: {hash}\n")
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn tls_cases() -> Vec<Case> {
    let verify = "client_auth_type: RequireAndVerifyClientCert\nclient_ca_file: ca.pem";
    let inline = |pki_file: &str| format!("INLINE {pki_file}");
    vec![
        same(TLS),
        same("tls_server_config: {min_version: TLS13}"),
        same("tls_server_config: {client_allowed_sans: [a]}"),
        same("tls_server_config:"),
        same("tls_server_config: text"),
        same("tls_server_config: {cert_file: '', key_file: ''}"),
        same("tls_server_config: {cert_filse: server.pem}"),
        same("tls_server_config: {cert_file: server.pem}"),
        same("tls_server_config: {key_file: server-key.pem}"),
        same("tls_server_config: {cert_file: '', key_file: server-key.pem}"),
        same("tls_server_config: {cert_file: gone.pem, key_file: server-key.pem}"),
        same("tls_server_config: {cert_file: server.pem, key_file: gone.pem}"),
        same("tls_server_config: {cert_file: server.pem, key_file: other-key.pem}"),
        same("tls_server_config: {cert_file: server-key.pem, key_file: server-key.pem}"),
        same("tls_server_config: {cert: a, key: b}"),
        same("tls_server_config: {client_auth_type: NoClientCert}"),
        same(format!("{TLS}{TLS}")),
        same(tls("cert_file: server.pem")),
        same(tls("min_version: TLS12\nmax_version: TLS12")),
        same(tls("min_version: TLS13")),
        same(tls("min_version: ~\nmax_version:")),
        same(tls("min_version: TLS14")),
        same(tls("max_version: ''")),
        same(tls("prefer_server_cipher_suites: no")),
        same(tls("prefer_server_cipher_suites: 'no'")),
        differs(tls("max_version: TLS11"), "`max_version` below TLS 1.2"),
        differs(
            tls("min_version: TLS13\nmax_version: TLS12"),
            "below `min_version`",
        ),
        same(tls(
            "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]",
        )),
        differs(
            tls("cipher_suites: [TLS_AES_128_GCM_SHA256]"),
            "suite that HTTP/2 requires",
        ),
        same(
            tls("cipher_suites: [TLS_AES_128_GCM_SHA256]") + "http_server_config: {http2: false}\n",
        ),
        same(tls(
            "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]",
        )),
        same(tls("cipher_suites: []")),
        same(tls("cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]")),
        same(tls("cipher_suites: [foo]")),
        same(tls("cipher_suites: foo")),
        differs(
            tls("cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA]"),
            "cipher suites with CBC",
        ),
        same(tls("curve_preferences: [CurveP256, X25519, CurveP521]")),
        same(tls("curve_preferences: [CurveP257]")),
        same(tls("curve_preferences: [X25519MLKEM768]")),
        differs(tls("curve_preferences: [CurveP521]"), "`CurveP521`"),
        same(tls("client_auth_type: NoClientCert")),
        same(tls("client_auth_type: RequestClientCert")),
        same(tls("client_auth_type: RequireAnyClientCert")),
        same(tls("client_auth_type: RequireClientCert")),
        same(tls(
            "client_auth_type: VerifyClientCertIfGiven\nclient_ca_file: ca.pem",
        )),
        same(tls(verify)),
        same(tls("client_auth_type: Foo")),
        same(tls("client_auth_type: requireanyclientcert")),
        same(tls("client_ca_file: ca.pem")),
        same(tls(
            "client_auth_type: RequireAnyClientCert\nclient_ca_file: gone.pem",
        )),
        same(tls(&format!(
            "{verify}\nclient_allowed_sans: [ours.example.com]"
        ))),
        same(tls(&format!("{verify}\nclient_allowed_sans: [10.9.9.9]"))),
        same(tls(&format!(
            "{verify}\nclient_allowed_sans: ['spiffe://example.com/x']"
        ))),
        same(tls(&format!(
            "{verify}\nclient_allowed_sans: [other.example.com]"
        ))),
        differs(
            tls(&format!("{verify}\nclient_allowed_sans: []")),
            "empty `client_allowed_sans`",
        ),
        differs(
            tls(&format!("{verify}\nclient_allowed_sans: [a@b.example]")),
            "e-mail addresses",
        ),
        differs(
            tls("client_auth_type: RequestClientCert\nclient_allowed_sans: [ours.example.com]"),
            "and no certificate",
        ),
        differs(
            tls("client_auth_type: RequireAndVerifyClientCert"),
            "`RequireAndVerifyClientCert` without a client CA",
        ),
        same(tls("client_auth_type: VerifyClientCertIfGiven")),
        differs(
            tls("client_auth_type: RequireAndVerifyClientCert\nclient_ca_file: empty.pem"),
            "client CA without a certificate",
        ),
        same(inline("")),
    ]
}

#[expect(clippy::too_many_lines, reason = "one table")]
fn other_cases() -> Vec<Case> {
    let right = hash(4, "a");
    let right = right.as_str();
    vec![
        same(""),
        same("{}"),
        same("---\n# nothing\n"),
        same("null"),
        same("text"),
        same("[1, 2]"),
        same("a: 'b"),
        same("a: 1"),
        differs("\tbasic_auth_users: {}", "tab before the first key"),
        same("basic_auth_users:\n\tbob: secret"),
        same("{\"basic_auth_users\": {}}"),
        same("basic_auth_users:\nbasic_auth_users:\n"),
        same("basic_auth_users: ~"),
        same("basic_auth_users: [a]"),
        same("basic_auth_users: {bob: secret}"),
        same("basic_auth_users: {bob: }"),
        same(users(right)),
        same(users(&format!("'{right}'"))),
        same(users(&right.replace("$2b$", "$2a$"))),
        same(users(&right.replace("$2b$", "$2y$"))),
        same(users(&right.replace("$2b$", "$2x$"))),
        same(users(&right.replace("$2b$", "$3b$"))),
        same(users(&right.replace("$04$", "$03$"))),
        same(users(&right.replace("$04$", "$32$"))),
        same(users(&right.replace("$04$", "$xx$"))),
        same(users(right.split_at(58).0)),
        differs(
            users(&format!("{right}x")),
            "hash that is not 60 characters",
        ),
        differs(users(&right.replace("$2b$", "$2$")), "version `$2$`"),
        same(format!("basic_auth_users:\n  bob: {right}\n  7: {right}\n")),
        same(format!(
            "basic_auth_users:\n  bob: {right}\n  bob: {right}\n"
        )),
        same(format!("{TLS}{}", users(right))),
        same("http_server_config: {http2: false}"),
        same("http_server_config: {http2: yes}"),
        same("http_server_config: {http2: 'true'}"),
        same("http_server_config: {http2: 1}"),
        same("http_server_config: {http3: true}"),
        same("http_server_config: {headers: {}}"),
        same(headers("X-Frame-Options: deny")),
        same(headers(
            "X-Frame-Options: sameorigin, X-XSS-Protection: 1, X-Content-Type-Options: nosniff",
        )),
        same(headers("X-Frame-Options: DENY")),
        same(headers("X-Frame-Options: ")),
        same(headers("x-frame-options: deny")),
        same(headers("X-Content-Type-Options: sniff")),
        same(headers("Content-Type: a")),
        same(headers(
            "Strict-Transport-Security: max-age=31536000; includeSubDomains",
        )),
        same(headers(
            "Content-Security-Policy: \"default-src 'self' *.example.net\"",
        )),
        same(format!(
            "{}{}",
            headers("Strict-Transport-Security: max-age=1, X-Frame-Options: deny"),
            users(right)
        )),
        differs(
            headers("X-XSS-Protection: ''"),
            "header with an empty value",
        ),
        differs(
            headers("X-XSS-Protection: \"a\\nb\""),
            "header with a line break",
        ),
        same("rate_limit: {interval: 0, burst: 0}"),
        same("rate_limit: {interval: 1h, burst: 3}"),
        same("rate_limit: {interval: 1h30m, burst: 1}"),
        same("rate_limit: {interval: 1us, burst: 100}"),
        same("rate_limit: {interval: 1x, burst: 1}"),
        same("rate_limit: {interval: 1s, burst: many}"),
        same("rate_limit: {rate: 1}"),
        differs(
            "rate_limit: {interval: 1s, burst: 0}",
            "`rate_limit.burst` of 0",
        ),
        differs(
            "rate_limit: {interval: -1s, burst: 1}",
            "negative `interval`",
        ),
        differs(
            "rate_limit: {interval: 5, burst: 1}",
            "`rate_limit.interval` without a unit",
        ),
        differs("rate_limit: {burst: 0x10}", "numbers that are not decimal"),
        differs("rate_limit: &a {}\nhttp_server_config: *a", "YAML aliases"),
        differs("rate_limit: !!map {}", "YAML aliases, tags"),
        differs("{}\n---\n{}", "further documents"),
        differs(tls("cipher_suites: [null]"), "`null` as an entry"),
    ]
}

/// The files that the cases name.
fn pki() -> Pki {
    let pki = Pki::new();
    pki.write_certificate("server", &SERVER_NAMES);
    pki.write_certificate("other", &SERVER_NAMES);
    pki.write_certificate(
        "ours",
        &["ours.example.com", "10.9.9.9", "spiffe://example.com/x"],
    );
    pki.write("empty.pem", "");
    pki
}

/// Certificate and key within the file.
fn with_inline(pki: &Pki, config: &str) -> String {
    if !config.starts_with("INLINE") {
        return config.to_owned();
    }
    let text = |name: &str| {
        let text = std::fs::read_to_string(pki.path(name)).unwrap();
        text.lines()
            .fold(String::new(), |text, line| text + "    " + line + "\n")
    };
    let (certificate, key) = (text("server.pem"), text("server-key.pem"));
    format!("tls_server_config:\n  cert: |\n{certificate}  key: |\n{key}")
}

fn oracle() -> PathBuf {
    let key = "EXPORTER_TOOLKIT_VERSION=";
    let pins = include_str!("../../tools/pins");
    let version = pins
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    cached(
        &format!("toolkit-{version}/exporter-toolkit-oracle"),
        "toolkit",
    )
}

fn promtool() -> PathBuf {
    let key = "PROMETHEUS3_VERSION=";
    let pins = include_str!("../../tools/pins");
    let version = pins
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    cached(&format!("prometheus-{version}/promtool"), "prometheus3")
}

#[expect(
    clippy::disallowed_methods,
    reason = "finds the programs by the environment"
)]
fn cached(path: &str, tool: &str) -> PathBuf {
    let caches = std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"),
        PathBuf::from,
    );
    let path = caches.join("azure-scheduled-events-exporter").join(path);
    assert!(
        path.exists(),
        "{} is missing; run: tests/tools/install {tool}",
        path.display()
    );
    path
}

fn is_valid_for_promtool(config: &str) -> bool {
    let checked = Command::new(promtool())
        .args(["check", "web-config", config])
        .output();
    checked.unwrap().status.success()
}

/// What a server does with a file: refuses it, or answers the requests of [`ask`].
#[derive(Debug, PartialEq, Eq)]
enum Observed {
    Refused,
    Served(Vec<String>),
}

struct Server {
    process: Process,
    address: String,
}

/// `None` if the program ends with this code.
async fn start(command: &mut Command, code: i32) -> Option<Server> {
    let mut process = Process::start_as(command);
    let address =
        crate::support::wait_until(crate::support::DEADLINE, "it listens or ends", || {
            let log = process.log();
            let listens = log
                .lines()
                .find(|line| line.contains("address=") && line.contains("listening"));
            let has_ended = process.has_ended();
            listens
                .map(|line| {
                    let (_, rest) = line.split_once("address=").unwrap();
                    Some(
                        rest.split_whitespace()
                            .next()
                            .unwrap()
                            .trim_matches('"')
                            .to_owned(),
                    )
                })
                .or(has_ended.then_some(None))
        })
        .await;
    if let Some(address) = address {
        return Some(Server { process, address });
    }
    let ended = process.end().await;
    assert_eq!(ended.code, Some(code), "{ended:?}");
    None
}

/// The toolkit listens before it reads the file.
async fn start_oracle(config: &str) -> Option<Server> {
    let checked = Command::new(oracle())
        .args(["--check", "--web.config.file", config])
        .output();
    if !checked.unwrap().status.success() {
        return None;
    }
    let mut command = Command::new(oracle());
    start(command.args(["--web.config.file", config]), 1).await
}

async fn start_ours(config: &str) -> Option<Server> {
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "--web.listen-address=127.0.0.1:0",
            "--imds.url=http://127.0.0.1:9",
        ])
        .arg(format!("--web.config.file={config}"));
    start(&mut command, 64).await
}

async fn observe(pki: &Pki, server: Option<Server>) -> Observed {
    match server {
        None => Observed::Refused,
        Some(server) => {
            let mut lines = Vec::new();
            for number in 0..REQUESTS {
                lines.push(ask(pki, &server.address, number).await);
            }
            drop(server.process);
            Observed::Served(lines)
        }
    }
}

const REQUESTS: usize = 8;

/// The response to one of a list of requests, in one line.
async fn ask(pki: &Pki, address: &str, number: usize) -> String {
    let plain = Client::plain(address);
    let tls = |version, certificate: Option<&str>| {
        let certificate = certificate.map(|name| (pki, name));
        let tls = Tls {
            version,
            certificate,
        };
        Client::tls(address, pki, &tls)
    };
    let right = basic("bob", "a");
    let (client, header) = match number {
        0 => (plain, None),
        1 => (plain, Some(right)),
        2 => (tls(Some(&TLS12), None), None),
        3 => (tls(Some(&TLS13), None), None),
        4 => (tls(Some(&TLS13), Some("ours")), None),
        5 => (tls(Some(&TLS12), Some("foreign")), None),
        6 => (tls(None, Some("ours")), Some(right)),
        _ => (tls(None, Some("ours")), Some(basic("alice", "a"))),
    };
    let headers: Vec<&str> = header.as_deref().into_iter().collect();
    let Ok(response) = client.get("/metrics", &headers).await else {
        return format!("request {number}: no response");
    };
    let mut line = format!("request {number}: {}", response.status);
    for name in HEADERS.iter().chain(&OWN_HEADERS) {
        let start = format!("\r\n{name}:");
        if let Some((_, rest)) = response.head.split_once(&start) {
            let value = rest.lines().next().unwrap_or_default().trim();
            write!(line, ", {name}: {value}").unwrap();
        }
    }
    if response.status != 200 {
        write!(line, ", {:?}", response.body).unwrap();
    }
    line
}

/// Without the headers that the exporter adds by itself.
fn without_own_headers(theirs: &Observed, ours: Observed) -> Observed {
    let (Observed::Served(theirs), Observed::Served(ours)) = (theirs, ours) else {
        return Observed::Refused;
    };
    let lines = theirs.iter().zip(ours).map(|(theirs, ours)| {
        let is_own = |part: &&str| {
            let is_header = OWN_HEADERS.iter().any(|name| part.starts_with(name));
            is_header && !theirs.contains(*part)
        };
        let parts: Vec<&str> = ours.split(", ").filter(|part| !is_own(part)).collect();
        parts.join(", ")
    });
    Observed::Served(lines.collect())
}

/// The problem with a case, if there is one.
async fn compare(case: Case, documented: String) -> Option<String> {
    let pki = pki();
    let foreign = Pki::new();
    foreign.write_certificate("foreign", &["foreign.example.com"]);
    for end in [".pem", "-key.pem"] {
        let text = std::fs::read_to_string(foreign.path(&format!("foreign{end}"))).unwrap();
        pki.write(&format!("foreign{end}"), &text);
    }
    pki.write("web.yml", &with_inline(&pki, &case.config));
    let path = pki.path("web.yml");
    let theirs = observe(&pki, start_oracle(&path).await).await;
    let ours = observe(&pki, start_ours(&path).await).await;
    let accepted = |observed: &Observed| *observed != Observed::Refused;
    let promtool = is_valid_for_promtool(&path);
    if promtool != accepted(&theirs) {
        return Some(format!(
            "{}\npromtool: {promtool}, toolkit: {theirs:?}",
            case.config
        ));
    }
    let is_same = if accepted(&theirs) && accepted(&ours) {
        without_own_headers(&theirs, ours) == theirs
    } else {
        accepted(&theirs) == accepted(&ours)
    };
    match case.difference {
        None if is_same => None,
        None => {
            let ours = observe(&pki, start_ours(&path).await).await;
            Some(format!(
                "{}\nours: {ours:#?}\ntoolkit: {theirs:#?}",
                case.config
            ))
        }
        Some(row) if is_same => Some(format!("{}\nno difference: {row}", case.config)),
        Some(row) => {
            let is_listed = documented
                .lines()
                .any(|line| line.starts_with("| ") && line.contains(row));
            (!is_listed).then(|| format!("docs/http.md has no row with {row:?}"))
        }
    }
}

#[tokio::test]
async fn files_and_requests_have_the_results_of_exporter_toolkit_or_a_documented_difference() {
    let documented = include_str!("../../../docs/http.md");
    let mut problems = Vec::new();
    let mut cases: Vec<Case> = tls_cases();
    cases.extend(other_cases());
    let count = cases.len();
    assert!(count >= 100, "{count} cases");
    let mut running = JoinSet::new();
    for case in cases {
        // A few at a time: each has two processes.
        if running.len() >= 4 {
            problems.extend(running.join_next().await.unwrap().unwrap());
        }
        running.spawn(compare(case, documented.to_owned()));
    }
    problems.extend(running.join_all().await.into_iter().flatten());
    assert!(
        problems.is_empty(),
        "{} of {count}:\n{}",
        problems.len(),
        problems.join("\n\n")
    );
}

/// The file is replaced while both run; then the first is back.
async fn after_change(first: &str, second: &str, number: usize) -> [Vec<String>; 2] {
    let pki = pki();
    let mut observed = [Vec::new(), Vec::new()];
    for (program, lines) in observed.iter_mut().enumerate() {
        pki.write("web.yml", first);
        let path = pki.path("web.yml");
        let server = match program {
            0 => start_oracle(&path).await,
            _ => start_ours(&path).await,
        };
        let server = server.unwrap();
        for config in [first, second, first] {
            pki.write("web.yml", config);
            lines.push(ask(&pki, &server.address, number).await);
        }
    }
    observed
}

#[expect(clippy::too_many_lines, reason = "one table")]
#[tokio::test]
async fn changes_have_the_results_of_exporter_toolkit_or_a_documented_difference() {
    let documented = include_str!("../../../docs/http.md");
    let (bob, other) = (users(&hash(4, "a")), users(&hash(4, "b")));
    let deny = headers("X-Frame-Options: deny");
    let same_origin = headers("X-Frame-Options: sameorigin");
    let with_bob = format!("{TLS}{bob}");
    for (first, second, number, difference) in [
        (
            "",
            bob.as_str(),
            0,
            Some("`basic_auth_users` removed while running"),
        ),
        (&bob, &other, 1, None),
        (
            &bob,
            "",
            1,
            Some("`basic_auth_users` removed while running"),
        ),
        (&bob, "a: 'b", 1, None),
        (
            &bob,
            "basic_auth_users: {bob: secret}",
            1,
            Some("hash that is not 60 characters"),
        ),
        (&deny, &same_origin, 0, None),
        (&deny, "http_server_config: {headers: {Server: a}}", 0, None),
        (TLS, "", 3, None),
        (TLS, "a: 'b", 3, None),
        (
            TLS,
            "tls_server_config: {cert_file: gone.pem, key_file: server-key.pem}",
            3,
            None,
        ),
        (
            TLS,
            &with_bob,
            3,
            Some("`basic_auth_users` removed while running"),
        ),
        (
            &with_bob,
            TLS,
            6,
            Some("`basic_auth_users` removed while running"),
        ),
        ("", TLS, 0, None),
        (
            "rate_limit: {interval: 1h, burst: 1}",
            "",
            0,
            Some("`rate_limit` changed while running"),
        ),
    ] {
        let [theirs, ours] = after_change(first, second, number).await;
        let own = without_own_headers(&Observed::Served(theirs.clone()), Observed::Served(ours));
        let is_same = own == Observed::Served(theirs.clone());
        let is_expected = match difference {
            None => is_same,
            Some(row) => !is_same && documented.contains(row),
        };
        assert!(
            is_expected,
            "{first}\n{second}\nours: {own:#?}\ntoolkit: {theirs:#?}"
        );
    }
}
