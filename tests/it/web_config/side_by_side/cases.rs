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

/// The files but those with hashes, each with the row about a difference after a `≠`. `TLS` begins the lines of a
/// `tls_server_config` with certificate and key, `VERIFY` those that verify clients too, `HEADERS` a list of headers. `␤`
/// is the end of a line, `⇥` a tab.
const CASES: &str = r#"
    TLS
    tls_server_config: {min_version: TLS13}
    tls_server_config: {client_allowed_sans: [a]}
    tls_server_config:
    tls_server_config: text
    tls_server_config: {cert_file: '', key_file: ''}
    tls_server_config: {cert_filse: server.pem}
    tls_server_config: {cert_file: server.pem}
    tls_server_config: {key_file: server-key.pem}
    tls_server_config: {cert_file: '', key_file: server-key.pem}
    tls_server_config: {cert_file: gone.pem, key_file: server-key.pem}
    tls_server_config: {cert_file: server.pem, key_file: gone.pem}
    tls_server_config: {cert_file: server.pem, key_file: other-key.pem}
    tls_server_config: {cert_file: server-key.pem, key_file: server-key.pem}
    tls_server_config: {cert: a, key: b}
    tls_server_config: {client_auth_type: NoClientCert}
    TLS cert_file: server.pem
    TLS min_version: TLS12␤max_version: TLS12
    TLS min_version: TLS13
    TLS min_version: ~␤max_version:
    TLS min_version: TLS14
    TLS max_version: ''
    TLS prefer_server_cipher_suites: no
    TLS prefer_server_cipher_suites: 'no' ≠ as `http2` or
    TLS min_version: TLS10 ≠ `TLS10`, `TLS11`
    TLS max_version: TLS11 ≠ `TLS10`, `TLS11`
    TLS min_version: TLS13␤max_version: TLS12 ≠ `max_version` below `min_version`
    TLS cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]
    TLS cipher_suites: [TLS_AES_128_GCM_SHA256] ≠ suite that HTTP/2 requires
    TLS cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256] ≠ cipher suites with CBC
    TLS cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA] ≠ cipher suites with CBC
    TLS cipher_suites: []
    TLS cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]
    TLS cipher_suites: [foo]
    TLS cipher_suites: foo
    TLS curve_preferences: [CurveP256, X25519]
    TLS curve_preferences: [CurveP256, X25519, CurveP521] ≠ `CurveP521`
    TLS curve_preferences: [CurveP257]
    TLS curve_preferences: [X25519MLKEM768]
    TLS curve_preferences: [CurveP521] ≠ `CurveP521`
    TLS client_auth_type: NoClientCert
    TLS client_auth_type: RequestClientCert
    TLS client_auth_type: RequireAnyClientCert
    TLS client_auth_type: RequireClientCert
    TLS client_auth_type: VerifyClientCertIfGiven␤client_ca_file: ca.pem
    VERIFY client_ca_file: ca.pem
    TLS client_auth_type: Foo
    TLS client_auth_type: '' ≠ empty `client_auth_type`
    TLS client_auth_type: requireanyclientcert
    TLS client_ca_file: ca.pem
    TLS client_auth_type: RequireAnyClientCert␤client_ca_file: gone.pem
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [ours.example.com]
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [10.9.9.9]
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: ['spiffe://example.com/x']
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [other.example.com]
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [] ≠ empty `client_allowed_sans`
    VERIFY client_ca_file: ca.pem␤client_allowed_sans: [a@b.example] ≠ e-mail addresses
    TLS client_auth_type: RequestClientCert␤client_allowed_sans: [ours.example.com] ≠ and no certificate
    VERIFY ≠ `RequireAndVerifyClientCert` without a client CA
    TLS client_auth_type: VerifyClientCertIfGiven
    VERIFY client_ca_file: empty.pem ≠ client CA without a certificate
    INLINE ≠ inline `cert`
    {}
    ---␤# nothing␤
    null
    text
    [1, 2]
    a: 'b
    a: 1
    ⇥basic_auth_users: {}
    basic_auth_users:␤⇥bob: secret
    {"basic_auth_users": {}}
    basic_auth_users:␤basic_auth_users:␤
    basic_auth_users: ~
    basic_auth_users: [a]
    basic_auth_users: {bob: secret}
    basic_auth_users: {bob: }
    http_server_config: {http2: false}
    http_server_config: {http2: yes}
    http_server_config: {http2: 'true'} ≠ as `http2` or
    http_server_config: {http2: 1} ≠ as `http2` or
    http_server_config: {http3: true}
    http_server_config: {headers: {}}
    HEADERS X-Frame-Options: deny
    HEADERS X-Frame-Options: sameorigin, X-XSS-Protection: 1, X-Content-Type-Options: nosniff
    HEADERS X-Frame-Options: DENY
    HEADERS X-Frame-Options:
    HEADERS x-frame-options: deny
    HEADERS X-Content-Type-Options: sniff
    HEADERS Content-Type: a
    HEADERS Strict-Transport-Security: max-age=31536000; includeSubDomains
    HEADERS Content-Security-Policy: "default-src 'self' *.example.net"
    HEADERS X-XSS-Protection: yes
    HEADERS X-XSS-Protection: '' ≠ header with an empty value
    HEADERS X-XSS-Protection: "a\nb" ≠ header with a line break
    rate_limit: {interval: 0, burst: 0}
    rate_limit: {interval: 1us, burst: 100}
    rate_limit: {interval: 1h, burst: 3}
    rate_limit: {interval: 1h30m, burst: 1} ≠ | `rate_limit` |
    rate_limit: {interval: 1x, burst: 1} ≠ | `rate_limit` |
    rate_limit: {interval: 1 hour, burst: 3} ≠ | `rate_limit` |
    rate_limit: {interval: 1s, burst: many} ≠ | `rate_limit` |
    rate_limit: {interval: 1s, burst: 0} ≠ | `rate_limit` |
    rate_limit: {interval: -1s, burst: 1}
    rate_limit: {interval: 5, burst: 1}
    rate_limit: {burst: 0x10}
    rate_limit: [1s, 1]
    rate_limit: {rate: 1}
    rate_limit: &a {}␤http_server_config: *a
    rate_limit: !!map {}
    http_server_config: {headers: &a {}}␤basic_auth_users: {<<: *a} ≠ YAML merge keys
    {}␤---␤{} ≠ further documents
    TLS cipher_suites: [null] ≠ `null` as an entry
"#;

pub(super) fn cases() -> Vec<Case> {
    let rows = CASES.lines().map(str::trim_start);
    let case = |row: &'static str| {
        let (config, difference) = match row.split_once(" ≠ ") {
            Some((config, difference)) => (config, Some(difference)),
            None => (row, None),
        };
        let config = config.replace('␤', "\n").replace('⇥', "\t");
        let config = match config.split_once(' ').unwrap_or((&config, "")) {
            ("TLS", lines) => tls(lines),
            ("VERIFY", lines) => tls(&format!(
                "client_auth_type: RequireAndVerifyClientCert\n{lines}"
            )),
            ("HEADERS", lines) => headers(lines),
            _ => config,
        };
        Case { config, difference }
    };
    rows.map(case).chain(cases_with_hashes()).collect()
}

fn cases_with_hashes() -> Vec<Case> {
    let right = hash(4, "a");
    let right = right.as_str();
    let mut odd_salt = right.to_owned();
    odd_salt.replace_range(28..29, "/");
    let one_suite = tls("cipher_suites: [TLS_AES_128_GCM_SHA256]");
    let two_headers = headers("Strict-Transport-Security: max-age=1, X-Frame-Options: deny");
    vec![
        same(format!("{TLS}{TLS}")),
        same(one_suite + "http_server_config: {http2: false}\n"),
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
        differs(users(&odd_salt), "whose salt has bits"),
        same(format!("basic_auth_users:\n  bob: {right}\n  7: {right}\n")),
        same(format!(
            "basic_auth_users:\n  bob: {right}\n  bob: {right}\n"
        )),
        same(format!("{TLS}{}", users(right))),
        same(format!("{two_headers}{}", users(right))),
    ]
}
