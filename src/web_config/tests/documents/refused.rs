//! Documents that are refused, and the messages.

use super::{CAROL, parse, with_tls};

/// Each text is refused with an error that begins with these words.
fn assert_refused(rows: &[(String, &str)]) {
    for (text, expected) in rows {
        let error = parse(text).expect_err(text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

#[test]
fn invalid_documents_are_refused_with_the_line_and_the_setting() {
    assert_refused(&[
        ("text".to_owned(), "line 1: the file is not a mapping"),
        ("[1]".to_owned(), "line 1: the file is not a mapping"),
        ("a: 'b".to_owned(), "line 1: the file is no YAML"),
        (
            "tls_config: {}".to_owned(),
            "line 1: tls_config is not known: use tls_server_config, ",
        ),
        ("a\u{7}\u{202e}: 1".to_owned(), "line 1: "),
        (
            "rate_limit:\nrate_limit:\n".to_owned(),
            "line 2: rate_limit occurs twice",
        ),
        (
            "tls_server_config: text".to_owned(),
            "line 1: tls_server_config is not a mapping",
        ),
        (
            "basic_auth_users: [a]".to_owned(),
            "line 1: basic_auth_users is not a mapping",
        ),
        (
            "tls_server_config:\n  cert_filse: a\n".to_owned(),
            "line 2: tls_server_config.cert_filse is not known: use cert, ",
        ),
        (
            with_tls("cert_file: a"),
            "line 4: tls_server_config.cert_file occurs twice",
        ),
    ]);
}

#[test]
fn invalid_versions_and_client_settings_are_refused() {
    assert_refused(&[
        (
            with_tls("min_version: TLS14"),
            "line 4: tls_server_config.min_version is \"TLS14\": use TLS10, ",
        ),
        (
            with_tls("max_version: ''"),
            "line 4: tls_server_config.max_version is \"\"",
        ),
        (
            with_tls("max_version: TLS11"),
            "line 4: tls_server_config.max_version leaves no version",
        ),
        (
            with_tls("min_version: TLS13\nmax_version: TLS12"),
            "line 4: tls_server_config.min_version is newer than max_version",
        ),
        (
            with_tls("client_auth_type: Foo"),
            "line 4: tls_server_config.client_auth_type is \"Foo\": use NoClientCert, ",
        ),
        (
            with_tls("client_ca_file: a"),
            "line 4: tls_server_config.client_ca_file has no effect without",
        ),
        (
            with_tls("client_ca: a\nclient_auth_type: NoClientCert"),
            "line 4: tls_server_config.client_ca has no effect without",
        ),
        (
            with_tls("client_auth_type: RequireAndVerifyClientCert"),
            "line 4: tls_server_config.client_auth_type needs tls_server_config.client_ca_file",
        ),
        (
            with_tls("client_allowed_sans: []"),
            "line 4: tls_server_config.client_allowed_sans leaves no name",
        ),
        (
            with_tls("client_allowed_sans: a"),
            "line 4: tls_server_config.client_allowed_sans is not a list",
        ),
        (
            with_tls("client_allowed_sans: [[a]]"),
            "line 4: tls_server_config.client_allowed_sans has an entry",
        ),
        (
            with_tls("client_allowed_sans: [a@b.c]"),
            "line 4: tls_server_config.client_allowed_sans leaves no name",
        ),
    ]);
}

#[test]
fn invalid_suites_and_missing_settings_are_refused() {
    assert_refused(&[
        (
            with_tls("cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]"),
            "line 4: tls_server_config.cipher_suites has \"TLS_RSA_WITH_RC4_128_SHA\", which is not known",
        ),
        (
            with_tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]"),
            "line 4: tls_server_config.cipher_suites leaves no cipher suite",
        ),
        (
            with_tls("max_version: TLS12\ncipher_suites: [TLS_AES_128_GCM_SHA256]"),
            "line 5: tls_server_config.cipher_suites leaves no cipher suite",
        ),
        (
            with_tls("curve_preferences: [CurveP521]"),
            "line 4: tls_server_config.curve_preferences leaves no curve",
        ),
        (
            with_tls("curve_preferences: [X25519MLKEM768]"),
            "line 4: tls_server_config.curve_preferences has \"X25519MLKEM768\", which is not known",
        ),
        (
            with_tls("prefer_server_cipher_suites: 1"),
            "line 4: tls_server_config.prefer_server_cipher_suites is not a flag",
        ),
        (
            with_tls("cert: [a]"),
            "line 4: tls_server_config.cert is not a text",
        ),
        (
            "tls_server_config: {key: a}".to_owned(),
            "line 1: tls_server_config.cert is missing: set it or tls_server_config.cert_file",
        ),
        (
            "tls_server_config: {cert: a}".to_owned(),
            "line 1: tls_server_config.key is missing: set it or tls_server_config.key_file",
        ),
        (
            "tls_server_config: {client_auth_type: NoClientCert}".to_owned(),
            "line 1: tls_server_config.cert is missing",
        ),
    ]);
}

#[expect(clippy::too_many_lines, reason = "one table")]
#[test]
fn invalid_http_settings_users_and_limits_are_refused() {
    let users = |hash: &str| format!("basic_auth_users:\n  alice: {CAROL}\n  bob: {hash}\n");
    assert_refused(&[
        (
            "http_server_config: {http3: true}".to_owned(),
            "line 1: http_server_config.http3 is not known",
        ),
        (
            "http_server_config: {http2: 'true'}".to_owned(),
            "line 1: http_server_config.http2 is not a flag",
        ),
        (
            "http_server_config: {headers: {Content-Type: a}}".to_owned(),
            "line 1: http_server_config.headers.Content-Type is not known: use Content-Security-Policy, ",
        ),
        (
            "http_server_config: {headers: {x-frame-options: deny}}".to_owned(),
            "line 1: http_server_config.headers.x-frame-options is not known",
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: DENY}}".to_owned(),
            "line 1: http_server_config.headers.X-Frame-Options is \"DENY\": use deny or sameorigin",
        ),
        (
            "http_server_config: {headers: {X-Content-Type-Options: }}".to_owned(),
            "line 1: http_server_config.headers.X-Content-Type-Options is \"\": use nosniff",
        ),
        (
            "http_server_config: {headers: {X-XSS-Protection: \"a\\nb\"}}".to_owned(),
            "line 1: http_server_config.headers.X-XSS-Protection has a character",
        ),
        (
            users("password"),
            "line 3: basic_auth_users.bob is not a bcrypt hash",
        ),
        (
            users(""),
            "line 3: basic_auth_users.bob is not a bcrypt hash",
        ),
        (
            users(&CAROL.replace("$10$", "$99$")),
            "line 3: basic_auth_users.bob has the cost 99: use one from 4 to 31",
        ),
        (
            users(&CAROL.replace("$10$", "$03$")),
            "line 3: basic_auth_users.bob has the cost 3",
        ),
        (users("[a]"), "line 3: basic_auth_users.bob is not a text"),
        (
            "rate_limit: {interval: 5}".to_owned(),
            "line 1: rate_limit.interval is \"5\": use a duration",
        ),
        (
            "rate_limit: {interval: -1s}".to_owned(),
            "line 1: rate_limit.interval is \"-1s\"",
        ),
        (
            "rate_limit: {interval: 1s}".to_owned(),
            "line 1: rate_limit.burst is 0",
        ),
        (
            "rate_limit: {interval: 1s, burst: -1}".to_owned(),
            "line 1: rate_limit.burst is \"-1\": use a whole number",
        ),
        (
            "rate_limit: {rate: 1}".to_owned(),
            "line 1: rate_limit.rate is not known",
        ),
    ]);
}

#[test]
fn messages_do_not_contain_passwords_hashes_and_keys() {
    for text in [
        "basic_auth_users: {bob: SECRET}",
        "basic_auth_users: {bob: [SECRET]}",
        "tls_server_config: {key: SECRET}",
        "tls_server_config: {key: [SECRET], cert: a}",
    ] {
        let error = parse(text).unwrap_err();
        assert!(!error.contains("SECRET"), "{error}");
    }
}
