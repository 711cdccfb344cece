//! A list of documents: accepted with their settings and notes, or refused with a line that names the setting.

use std::{path::Path, time::Duration};

use super::super::{
    password::PasswordHash,
    rate_limit::RateLimit,
    settings::Settings,
    tls_settings::{ClientAuth, Curve, PemSource, TlsSettings},
};

const CAROL: &str = "$2y$10$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu";

fn parse(text: &str) -> Result<Settings, String> {
    Settings::parse(text, Path::new("/etc/exporter")).map_err(|error| error.to_string())
}

fn accepted(text: &str) -> Settings {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// `tls_server_config` with a certificate, a key and these lines.
fn with_tls(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(|line| format!("  {line}\n")).collect();
    let lines = lines.concat();
    format!("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n{lines}")
}

fn tls(lines: &str) -> TlsSettings {
    accepted(&with_tls(lines)).tls.unwrap()
}

#[test]
fn documents_without_content_change_nothing() {
    for text in [
        "",
        "{}",
        "---\n",
        "# comment\n",
        "null",
        "tls_server_config:\n",
        "basic_auth_users:\n",
        "basic_auth_users: {}",
        "http_server_config: ~\nrate_limit: null\n",
        "tls_server_config: {min_version: TLS13}",
        "tls_server_config: {cert_file: \"\", key: ''}",
        "http_server_config: {http2: false, headers: {}}",
        "rate_limit: {interval: 0, burst: 7}",
        "rate_limit: {burst: 7}",
    ] {
        let settings = accepted(text);
        assert!(settings.tls.is_none(), "{text}");
        assert!(
            settings.users.is_empty() && settings.headers.is_empty(),
            "{text}"
        );
        assert_eq!(settings.rate_limit, None, "{text}");
        assert!(settings.notes.is_empty(), "{text}: {:?}", settings.notes);
    }
}

#[test]
fn paths_are_relative_to_the_file() {
    let settings =
        tls("client_ca_file: /ca/root.pem\nclient_auth_type: RequireAndVerifyClientCert");
    let path = |source: &PemSource| match source {
        PemSource::File(path) => path.to_str().unwrap().to_owned(),
        PemSource::Inline(text) => panic!("{text}"),
    };
    assert_eq!(
        path(&settings.certificate.source),
        "/etc/exporter/server.crt"
    );
    assert_eq!(path(&settings.key.source), "/etc/exporter/server.key");
    assert_eq!(path(&settings.client_ca.unwrap().source), "/ca/root.pem");
}

#[test]
fn certificates_and_keys_can_be_inline_and_are_not_shown() {
    let text = "tls_server_config:\n  cert: |\n    first\n    second\n  key: \"secret\"\n";
    let settings = accepted(text).tls.unwrap();
    assert!(settings.certificate.source == PemSource::Inline("first\nsecond\n".to_owned()));
    assert!(settings.key.source == PemSource::Inline("secret".to_owned()));
    assert!(!format!("{settings:?}").contains("secret"));
    let both = tls("cert: inline\nkey: inline");
    assert!(
        matches!(both.certificate.source, PemSource::File(_)),
        "the file wins"
    );
}

#[test]
fn client_auth_types_are_those_of_go() {
    for (name, expected) in [
        ("NoClientCert", ClientAuth::None),
        ("RequestClientCert", ClientAuth::Request),
        ("RequireAnyClientCert", ClientAuth::RequireAny),
        ("RequireClientCert", ClientAuth::RequireAny),
        ("VerifyClientCertIfGiven", ClientAuth::VerifyIfGiven),
    ] {
        assert_eq!(
            tls(&format!("client_auth_type: {name}")).client_auth,
            expected
        );
    }
    let verified = tls("client_auth_type: RequireAndVerifyClientCert\nclient_ca: x");
    assert_eq!(verified.client_auth, ClientAuth::RequireAndVerify);
    assert_eq!(tls("").client_auth, ClientAuth::None);
}

#[test]
fn versions_are_tls_1_2_and_1_3() {
    for (lines, tls12, tls13, notes) in [
        ("", true, true, 0),
        ("min_version: TLS12", true, true, 0),
        ("min_version: TLS13", false, true, 0),
        ("max_version: TLS12", true, false, 0),
        ("max_version: ~", true, true, 0),
        ("min_version: TLS10", true, true, 1),
        ("min_version: TLS11\nmax_version: TLS12", true, false, 1),
    ] {
        let settings = accepted(&with_tls(lines));
        assert_eq!(settings.notes.len(), notes, "{lines}");
        let tls = settings.tls.unwrap();
        assert_eq!(
            (tls.allows_tls12, tls.allows_tls13),
            (tls12, tls13),
            "{lines}"
        );
    }
}

#[test]
fn unusable_suites_curves_and_names_are_left_out_with_a_note() {
    let settings = accepted(&with_tls(
        "cipher_suites:\n- TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA\n- TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n\
         - TLS_AES_128_GCM_SHA256\ncurve_preferences: [CurveP521, CurveP384, X25519, CurveP256]\n\
         client_allowed_sans: [a@example.com, example.com, \"spiffe://example.com/a\", 10.0.0.1, \"::1\"]",
    ));
    let notes = settings.notes.join("\n");
    for word in ["CBC_SHA", "CurveP521", "a@example.com"] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
    assert_eq!(settings.notes.len(), 3);
    let tls = settings.tls.unwrap();
    let suites = tls.cipher_suites.unwrap();
    assert_eq!(suites, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
    assert_eq!(
        tls.curves.unwrap(),
        [Curve::P384, Curve::X25519, Curve::P256]
    );
    let names = tls.allowed_names.unwrap();
    assert_eq!(
        names,
        ["example.com", "spiffe://example.com/a", "10.0.0.1", "::1"]
    );
}

#[test]
fn empty_lists_are_the_default() {
    let settings = tls("cipher_suites: []\ncurve_preferences: []\nclient_allowed_sans:");
    assert!(settings.cipher_suites.is_none() && settings.curves.is_none());
    assert!(settings.allowed_names.is_none());
    let only_tls13 = tls("cipher_suites: [TLS_AES_128_GCM_SHA256]");
    assert_eq!(only_tls13.cipher_suites.unwrap(), [] as [&str; 0]);
}

#[test]
fn http_settings_are_read() {
    let settings = accepted(
        "http_server_config:\n  http2: yes\n  headers:\n    X-Frame-Options: sameorigin\n    X-XSS-Protection: 1\n    \
         X-Content-Type-Options: nosniff\n    Strict-Transport-Security: max-age=31536000; includeSubDomains\n    \
         Content-Security-Policy: \"\"\n",
    );
    let headers = [
        (
            "Strict-Transport-Security",
            "max-age=31536000; includeSubDomains",
        ),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "sameorigin"),
        ("X-XSS-Protection", "1"),
    ];
    assert_eq!(
        settings.headers,
        headers.map(|(name, value)| (name, value.to_owned()))
    );
    assert_eq!(settings.notes.len(), 1, "{:?}", settings.notes);
    assert!(
        settings.notes[0].contains("HTTP/1.1"),
        "{:?}",
        settings.notes
    );
}

#[test]
fn users_and_the_rate_limit_are_read() {
    let settings = accepted(&format!(
        "basic_auth_users:\n  carol: {CAROL}\n  7: '{CAROL}'\nrate_limit: {{interval: 1.5s, burst: 3}}"
    ));
    assert_eq!(settings.users.keys().collect::<Vec<_>>(), ["7", "carol"]);
    assert_eq!(settings.users["carol"], PasswordHash::parse(CAROL).unwrap());
    let interval = Duration::from_millis(1_500);
    assert_eq!(settings.rate_limit, Some(RateLimit { interval, burst: 3 }));
    assert!(!format!("{settings:?}").contains("qRTBuFoU"));
}

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
