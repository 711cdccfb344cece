//! No output of the program contains a secret of a URL, of a header or of a credentials file.

use std::{net::SocketAddr, process::Command};

use crate::support::{
    FakeAlertmanager, FakeImds, RefusingPort, Reply,
    collector::{Answer, FakeCollector},
    pki::Pki,
    process::{Ended, PROGRAM, Process},
};

const SECRET: &str = "hunter2hunter2";
const EVENT: &str = r#"{"DocumentIncarnation":1,"Events":[{"EventId":"7B1E04C9-52DA-4F6E-9C38-A40D7E91B265","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["web_0"],"NotBefore":"Fri, 31 Dec 2999 23:59:59 GMT"}]}"#;

/// `me:` and the secret, as in the header of basic authentication.
const BASIC: &str = "bWU6aHVudGVyMmh1bnRlcjI=";

fn assert_secret(ended: &Ended, what: &str) {
    let output = format!("{}{}", ended.stdout, ended.log);
    let is_shown = output.contains("hunter2") || output.contains(BASIC);
    assert!(!is_shown, "{what}: {output}");
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "each place of a secret")]
async fn error_for_an_invalid_setting_does_not_contain_a_secret() {
    let invalid = [
        "ftp://me:SECRET@127.0.0.1",
        "http://me:SECRET@127.0.0.1:port",
        "http://me:a/SECRET@127.0.0.1:port",
        "http//me:SECRET@127.0.0.1",
        "me:SECRET@127.0.0.1:9",
        "http:///SECRET@",
        "http:// /?key=SECRET",
    ]
    .map(|url| url.replace("SECRET", SECRET));
    let mut refused = 0;
    for url in &invalid {
        let flags = [
            "--alertmanager.url",
            "--imds.url",
            "--log.level",
            "--unknown",
        ];
        let mut commands: Vec<_> = flags
            .iter()
            .flat_map(|flag| {
                [
                    vec![format!("{flag}={url}")],
                    vec![(*flag).to_owned(), url.clone()],
                ]
            })
            .collect();
        commands.push(vec![url.clone()]);
        commands.push(vec!["list".to_owned(), format!("--imds.url={url}")]);
        for arguments in commands {
            let ended = Process::start(&arguments).end().await;
            assert_eq!(ended.code, Some(64), "{arguments:?}: {ended:?}");
            assert_eq!(ended.log.lines().count(), 1, "{ended:?}");
            assert_secret(&ended, &arguments.join(" "));
            refused += 1;
        }
        for variable in [
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        ] {
            let ended = Process::start_as(Command::new(PROGRAM).env(variable, url))
                .end()
                .await;
            assert_eq!(ended.code, Some(64), "{variable}={url}: {ended:?}");
            assert!(ended.log.contains(variable), "{ended:?}");
            assert_secret(&ended, url);
            refused += 1;
        }
    }
    for url in [
        "http://127.0.0.1:9/SECRET/api/v2",
        "http://127.0.0.1:9/SECRET/api/v2/alerts",
        "http://127.0.0.1:9/?key=SECRET",
        "http://127.0.0.1:9#SECRET",
    ] {
        let flag = format!("--alertmanager.url={}", url.replace("SECRET", SECRET));
        let ended = Process::start([&flag]).end().await;
        assert_eq!(ended.code, Some(64), "{flag}: {ended:?}");
        assert_secret(&ended, &flag);
    }
    assert_eq!(refused, invalid.len() * 12);
}

/// Starts the exporter with these variables and flags, waits for these log lines, and returns the output.
async fn output(environment: &[(&str, String)], flags: &[String], lines: &[&str]) -> Ended {
    let imds = FakeImds::standing(Reply::ok(EVENT)).await;
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "--web.listen-address=127.0.0.1:0",
            "--vm.name=web_0",
            "--log.level=trace",
        ])
        .arg(format!("--imds.url={}", imds.base()))
        .args(flags)
        .envs(environment.iter().map(|(name, value)| (name, value)));
    let mut exporter = Process::start_as(&mut command);
    for line in lines {
        exporter.says(line).await;
    }
    exporter.signal("TERM");
    exporter.end().await
}

#[tokio::test]
async fn log_lines_about_failed_requests_do_not_contain_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let file = std::fs::File::create(&token).unwrap();
    std::io::Write::write_all(&mut &file, SECRET.as_bytes()).unwrap();
    let refusing = RefusingPort::reserve();
    let echo = format!("Cannot POST /{SECRET}/v1/traces?key={SECRET} for Bearer {SECRET}");
    let collector = FakeCollector::scripted([]).await;
    collector.now(Answer::http(401, &[], echo.as_bytes()));
    let alertmanager = FakeAlertmanager::standing(Reply::error("404 Not Found", &echo)).await;
    let pairs = [
        (refusing.base().replace("http://", ""), refusing.base()),
        (collector.address.to_string(), alertmanager.base()),
    ];
    for (collector, alertmanager) in pairs {
        let environment = [
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                format!("http://me:{SECRET}@{collector}/{SECRET}/v1/traces?key={SECRET}#{SECRET}"),
            ),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                format!("authorization=Bearer%20{SECRET},x={SECRET}"),
            ),
            ("OTEL_RESOURCE_ATTRIBUTES", format!("team=sre,{SECRET}")),
        ];
        let flags = [
            format!("--alertmanager.url={alertmanager}/{SECRET}"),
            format!("--alertmanager.bearer-token-file={}", token.display()),
        ];
        let lines = ["trace export failed", "alert push failed"];
        let ended = output(&environment, &flags, &lines).await;
        assert!(
            ended.log.contains("OTEL_RESOURCE_ATTRIBUTES is ignored"),
            "{}",
            ended.log
        );
        let endpoint = format!("endpoint=http://{collector}/v1/traces ");
        assert!(ended.log.contains(&endpoint), "{}", ended.log);
        assert_secret(&ended, &collector);
    }
}

/// A variable that a shell did not expand is no host of an HTTP request.
#[tokio::test]
async fn log_lines_about_an_endpoint_without_a_host_do_not_contain_a_secret() {
    let endpoint = format!("http://me:{SECRET}@${{HOST}}:4318");
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)];
    let ended = output(&environment, &[], &["trace export failed"]).await;
    assert_secret(&ended, "an endpoint without a host");
}

#[tokio::test]
async fn log_lines_do_not_contain_an_authorization_header_that_a_server_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials");
    let file = std::fs::File::create(&credentials).unwrap();
    std::io::Write::write_all(&mut &file, format!("me:{SECRET}").as_bytes()).unwrap();
    let echo = format!("Invalid header: authorization: Basic {BASIC}");
    let collector = FakeCollector::scripted([]).await;
    let unauthorized = Answer::http(401, &[], echo.as_bytes());
    collector.now(unauthorized);
    let alertmanager = FakeAlertmanager::standing(Reply::error("401 Unauthorized", &echo)).await;
    let endpoint = format!("http://me:{SECRET}@{}", collector.address);
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)];
    let flags = [
        format!("--alertmanager.url={}", alertmanager.base()),
        format!("--alertmanager.basic-auth-file={}", credentials.display()),
    ];
    let lines = [
        "trace export failed",
        "log export failed",
        "alert push failed",
    ];
    let ended = output(&environment, &flags, &lines).await;
    let sent = format!("Basic {BASIC}");
    let (spans, alerts) = (collector.received(), alertmanager.requests());
    assert_eq!(spans[0].header("authorization"), Some(sent.as_str()));
    assert_eq!(alerts[0].header("authorization"), Some(sent.as_str()));
    assert_eq!(ended.log.matches("Basic xxxxx").count(), 3, "{}", ended.log);
    assert_secret(&ended, "echo");
}

#[tokio::test]
async fn log_lines_do_not_contain_the_credentials_of_a_proxy_that_refuses_and_repeats_them() {
    let echo = format!("Invalid proxy-authorization: Basic {BASIC} of me:{SECRET}");
    let proxied = |proxy: SocketAddr| {
        let variables = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"];
        let url = format!("http://me:{SECRET}@{proxy}");
        variables.map(|name| (name, url.clone())).to_vec()
    };
    let collector = FakeCollector::scripted([]).await;
    let refusal = Answer::http(407, &[], echo.as_bytes());
    collector.now(refusal);
    let mut environment = proxied(collector.address);
    environment.push((
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "http://collector.invalid:4318".to_owned(),
    ));
    let ended = output(&environment, &[], &["trace export failed"]).await;
    let sent = format!("Basic {BASIC}");
    let received = collector.received();
    assert_eq!(received[0].header("proxy-authorization"), Some(&*sent));
    assert!(ended.log.contains("xxxxx of me:xxxxx"), "{}", ended.log);
    assert_secret(&ended, "collector");

    let refusal = Reply::error("407 Proxy Authentication Required", &echo);
    let alertmanager = FakeAlertmanager::standing(refusal).await;
    let environment = proxied(alertmanager.address());
    let authority = Pki::new();
    for (scheme, shown) in [
        ("http", "xxxxx of me:xxxxx"),
        ("https", "proxy authorization required"),
    ] {
        let flags = [
            format!("--alertmanager.url={scheme}://alertmanager.invalid:9093"),
            format!("--alertmanager.ca-file={}", authority.path("ca.pem")),
        ];
        let ended = output(&environment, &flags, &["alert push failed"]).await;
        assert!(ended.log.contains(shown), "{scheme}: {}", ended.log);
        assert_secret(&ended, scheme);
    }
}

#[tokio::test]
async fn log_lines_about_a_proxy_and_about_imds_do_not_contain_a_secret() {
    let refusing = RefusingPort::reserve();
    let proxy = refusing
        .base()
        .replace("http://", &format!("http://me:{SECRET}@"));
    let environment = [
        ("HTTP_PROXY", proxy.clone()),
        ("http_proxy", proxy),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "http://collector.invalid:4318".to_owned(),
        ),
    ];
    let flags = ["--alertmanager.url=http://alertmanager.invalid:9093".to_owned()];
    let lines = ["trace export failed", "alert push failed"];
    let ended = output(&environment, &flags, &lines).await;
    assert_secret(&ended, "proxy");
    for line in lines {
        let mut logged = ended.log.lines().filter(|logged| logged.contains(line));
        let names_proxy = logged.any(|logged| logged.contains("proxy=http://127.0.0.2:"));
        assert!(names_proxy, "{line}: {}", ended.log);
    }
    let imds = format!("--imds.url={}/{SECRET}", refusing.base());
    let mut exporter = Process::start(["--web.listen-address=127.0.0.1:0", &imds]);
    exporter.says("polling failed").await;
    exporter.signal("TERM");
    assert_secret(&exporter.end().await, "IMDS");
    let ended = Process::start(["list", &imds]).end().await;
    assert_eq!(ended.code, Some(1));
    assert_secret(&ended, "list");
}
