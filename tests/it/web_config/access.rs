//! Passwords, probes and headers.

use tokio::time::Instant;

use super::{Protected, STARTED, basic, user};
use crate::support::{DEADLINE, Reply};

const PATHS: [&str; 7] = [
    "/",
    "/metrics",
    "/api/v1/events",
    "/api/v1/transitions",
    "/assets/status.css",
    "/nowhere",
    "/-/healthy/",
];
const PROBES: [&str; 4] = ["/-/healthy", "/healthz", "/-/ready", "/readyz"];

#[tokio::test]
async fn every_path_but_the_probes_needs_a_password() {
    let exporter = Protected::start(&user("bob", 4, "a b:c")).await;
    let client = exporter.plain();
    let right = basic("bob", "a b:c");
    let wrong = [
        String::new(),
        basic("bob", "a b"),
        basic("bob", ""),
        basic("Bob", "a b:c"),
        basic("alice", "a b:c"),
        "Authorization: Bearer x".to_owned(),
        "Authorization: Basic !".to_owned(),
    ];
    for path in PATHS {
        for header in &wrong {
            let headers: Vec<&str> = Some(header.as_str())
                .filter(|text| !text.is_empty())
                .into_iter()
                .collect();
            let response = client.get(path, &headers).await.unwrap();
            assert_eq!(response.status, 401, "{path} {header}");
            assert!(
                response.head.contains("\r\nwww-authenticate: basic\r\n"),
                "{}",
                response.head
            );
            assert_eq!(response.body, "Unauthorized\n");
        }
        let status = client.status(path, &[&right]).await;
        let expected = if ["/nowhere", "/-/healthy/"].contains(&path) {
            404
        } else {
            200
        };
        assert_eq!(status, expected, "{path}");
    }
    for path in PROBES {
        for headers in [&[][..], &[right.as_str()], &[wrong[1].as_str()]] {
            assert_eq!(client.status(path, headers).await, 200, "{path}");
        }
    }
}

#[tokio::test]
async fn a_probe_names_an_event_only_where_no_password_is_needed() {
    for (config, body) in [
        (user("bob", 4, "a"), "not serving\n"),
        (String::new(), "not serving: Freeze of "),
    ] {
        let mut exporter = Protected::start(&config).await;
        let before = exporter.plain().get("/-/serving", &[]).await.unwrap();
        assert_eq!((before.status, before.body.as_str()), (200, "serving\n"));
        exporter.imds.now(Reply::ok(STARTED));
        exporter.process.says("transition=started").await;
        // Shown after it is logged.
        let deadline = Instant::now() + DEADLINE;
        let response = loop {
            let response = exporter.plain().get("/-/serving", &[]).await.unwrap();
            if response.status != 200 {
                break response;
            }
            assert!(Instant::now() < deadline, "still serving");
        };
        assert_eq!(response.status, 503);
        assert!(response.body.starts_with(body), "{}", response.body);
    }
}

#[tokio::test]
async fn configured_headers_are_on_every_response() {
    let headers = "http_server_config:\n  headers:\n    X-Frame-Options: deny\n    X-XSS-Protection: 1\n    \
                   Strict-Transport-Security: max-age=60\n    Content-Security-Policy: default-src 'self'\n";
    let config = format!("{headers}{}", user("bob", 4, "a"));
    let exporter = Protected::start(&config).await;
    let client = exporter.plain();
    let right = basic("bob", "a");
    for (path, headers, status) in [
        ("/-/healthy", &[][..], 200),
        ("/metrics", &[right.as_str()], 200),
        ("/metrics", &[], 401),
        ("/-/serving", &[], 200),
    ] {
        let response = client.get(path, headers).await.unwrap();
        assert_eq!(response.status, status, "{path}");
        for line in [
            "x-frame-options: deny",
            "x-xss-protection: 1",
            "strict-transport-security: max-age=60",
            "content-security-policy: default-src 'self'",
            "x-content-type-options: nosniff",
        ] {
            assert_eq!(
                response.head.matches(line).count(),
                1,
                "{line}\n{}",
                response.head
            );
        }
        assert_eq!(response.head.matches("content-security-policy").count(), 1);
    }
}
