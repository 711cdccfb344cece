//! The files of the comparison.

use super::super::{TLS, hash};

/// A file, and the row of docs/internals/exporter-toolkit.md about a difference.
pub(super) struct Case {
    pub(super) config: String,
    pub(super) difference: Option<&'static str>,
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

pub(super) fn headers(lines: &str) -> String {
    format!("http_server_config: {{headers: {{{lines}}}}}\n")
}

pub(super) fn users(hash: &str) -> String {
    format!("basic_auth_users:\n  bob: {hash}\n")
}

#[expect(clippy::too_many_lines, reason = "one table")]
pub(super) fn tls_cases() -> Vec<Case> {
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
        differs(tls("client_auth_type: ''"), "empty `client_auth_type`"),
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
pub(super) fn other_cases() -> Vec<Case> {
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
            headers("X-XSS-Protection: yes"),
            "`yes`, `true` and the like",
        ),
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
        same("rate_limit: [1s, 1]"),
        differs(
            "rate_limit: {interval: 1 hour, burst: 3}",
            "`rate_limit.interval` in words",
        ),
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
