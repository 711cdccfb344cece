//! A list of documents: accepted with their settings and notes, or refused with a line that names the setting.

use std::path::Path;

use rustls::{NamedGroup, version::TLS13};

use super::super::{settings::Settings, tls_settings::TlsSettings};

const CAROL: &str = "$2y$10$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu";

fn parse(text: &str) -> Result<Settings, String> {
    Settings::parse(text, Path::new("/etc/exporter"))
}

/// `tls_server_config` with a certificate, a key and these lines.
fn with_tls(lines: &str) -> String {
    let lines: Vec<_> = lines.lines().map(|line| format!("  {line}\n")).collect();
    let lines = lines.concat();
    format!("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n{lines}")
}

fn accepted(text: &str) -> Settings {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn tls(lines: &str) -> TlsSettings {
    accepted(&with_tls(lines)).tls.unwrap()
}

fn tls12_suites(settings: &TlsSettings) -> Vec<&'static str> {
    let suites = settings.provider.cipher_suites.iter();
    let suites = suites.filter(|suite| suite.tls13().is_none());
    suites
        .map(|suite| suite.suite().as_str().unwrap())
        .collect()
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
        assert!(settings.rate_limit.interval.is_zero(), "{text}");
        assert!(settings.notes.is_empty(), "{text}: {:?}", settings.notes);
    }
}

#[test]
fn certificates_and_keys_can_be_inline() {
    let text = "tls_server_config:\n  cert: |\n    first\n    second\n  key: \"secret\"\n";
    let settings = accepted(text).tls.unwrap();
    assert_eq!(settings.certificate.text, "first\nsecond\n");
    assert_eq!(settings.key.text, "secret");
    assert!(settings.key.file.is_none());
    let both = tls("cert: inline\nkey: inline");
    let path = both.certificate.file.unwrap();
    assert!(
        path.ends_with("exporter/server.crt"),
        "the file wins, relative to its own"
    );
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
    assert_eq!(
        tls12_suites(&tls),
        ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
    );
    let curves: Vec<_> = tls
        .provider
        .kx_groups
        .iter()
        .map(|group| group.name())
        .collect();
    assert_eq!(
        curves,
        [
            NamedGroup::secp384r1,
            NamedGroup::X25519,
            NamedGroup::secp256r1
        ]
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
    assert_eq!(tls12_suites(&settings).len(), 6);
    assert_eq!(settings.provider.kx_groups.len(), 3);
    assert!(settings.allowed_names.is_none());
    let only_tls13 = tls("cipher_suites: [TLS_AES_128_GCM_SHA256]");
    assert_eq!(only_tls13.versions, [&TLS13]);
}

/// Each text is refused with an error that begins with these words.
fn assert_refused(rows: &[(String, &str)]) {
    for (text, expected) in rows {
        let error = parse(text).err().expect(text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

#[test]
fn invalid_documents_are_refused_with_the_line_or_the_setting() {
    assert_refused(&[
        (
            "text".to_owned(),
            "the file: a text where a mapping of keys to values is expected",
        ),
        ("[1]".to_owned(), "the file is a list"),
        (
            "a: 'b".to_owned(),
            "line 1, column 4: the file is not valid YAML",
        ),
        (
            "tls_config: {}".to_owned(),
            "tls_config: unknown field `tls_config`, expected one of `tls_server_config`, ",
        ),
        ("a\u{7}\u{202e}: 1".to_owned(), ""),
        (
            "rate_limit:\nrate_limit:\n".to_owned(),
            "line 2, column 1: the file has \"rate_limit\" twice",
        ),
        (
            "tls_server_config: text".to_owned(),
            "tls_server_config: a text where a mapping of keys to values is expected",
        ),
        ("rate_limit: [1s, 1]".to_owned(), "rate_limit is a list"),
        (
            "basic_auth_users: [a]".to_owned(),
            "basic_auth_users: invalid type: sequence, expected a map",
        ),
        (
            "tls_server_config:\n  cert_filse: a\n".to_owned(),
            "tls_server_config.cert_filse: unknown field `cert_filse`, expected one of `cert`, ",
        ),
        (
            with_tls("cert_file: a"),
            "line 4, column 3: the file has \"cert_file\" twice",
        ),
    ]);
}

#[test]
fn invalid_versions_and_client_settings_are_refused() {
    assert_refused(&[
        (
            with_tls("min_version: TLS14"),
            "tls_server_config.min_version: unknown variant `TLS14`, expected one of `TLS10`, ",
        ),
        (
            with_tls("max_version: ''"),
            "tls_server_config.max_version: unknown variant ``",
        ),
        (
            with_tls("max_version: TLS11"),
            "tls_server_config.max_version leaves no version",
        ),
        (
            with_tls("min_version: TLS13\nmax_version: TLS12"),
            "tls_server_config.min_version is newer than max_version",
        ),
        (
            with_tls("client_auth_type: Foo"),
            "tls_server_config.client_auth_type: unknown variant `Foo`, expected one of `NoClientCert`, ",
        ),
        (
            with_tls("client_ca_file: a"),
            "tls_server_config.client_ca_file has no effect without",
        ),
        (
            with_tls("client_ca: a\nclient_auth_type: NoClientCert"),
            "tls_server_config.client_ca has no effect without",
        ),
        (
            with_tls("client_auth_type: RequireAndVerifyClientCert"),
            "tls_server_config.client_auth_type needs tls_server_config.client_ca_file",
        ),
        (
            with_tls("client_allowed_sans: []"),
            "tls_server_config.client_allowed_sans leaves no name",
        ),
        (
            with_tls("client_allowed_sans: a"),
            "tls_server_config.client_allowed_sans: a text where a sequence is expected",
        ),
        (
            with_tls("client_allowed_sans: [[a]]"),
            "tls_server_config.client_allowed_sans[0]: invalid type: sequence",
        ),
        (
            with_tls("client_allowed_sans: [a@b.c]"),
            "tls_server_config.client_allowed_sans leaves no name",
        ),
    ]);
}

#[test]
fn invalid_suites_and_missing_settings_are_refused() {
    assert_refused(&[
        (
            with_tls("cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]"),
            "tls_server_config.cipher_suites has \"TLS_RSA_WITH_RC4_128_SHA\", which is not known",
        ),
        (
            with_tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]"),
            "tls_server_config.cipher_suites leaves no cipher suite",
        ),
        (
            with_tls("max_version: TLS12\ncipher_suites: [TLS_AES_128_GCM_SHA256]"),
            "tls_server_config.cipher_suites leaves no cipher suite",
        ),
        (
            with_tls("curve_preferences: [CurveP521]"),
            "tls_server_config.curve_preferences leaves no curve",
        ),
        (
            with_tls("curve_preferences: [X25519MLKEM768]"),
            "tls_server_config.curve_preferences has \"X25519MLKEM768\", which is not known",
        ),
        (
            with_tls("prefer_server_cipher_suites: 1"),
            "tls_server_config.prefer_server_cipher_suites: a text where a boolean is expected",
        ),
        (
            with_tls("cert: [a]"),
            "tls_server_config.cert: invalid type: sequence",
        ),
        (
            "tls_server_config: {key: a}".to_owned(),
            "tls_server_config.cert is missing: set it or tls_server_config.cert_file",
        ),
        (
            "tls_server_config: {cert: a}".to_owned(),
            "tls_server_config.key is missing: set it or tls_server_config.key_file",
        ),
        (
            "tls_server_config: {client_auth_type: NoClientCert}".to_owned(),
            "tls_server_config.cert is missing",
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
            "http_server_config.http3: unknown field `http3`",
        ),
        (
            "http_server_config: {http2: 'true'}".to_owned(),
            "http_server_config.http2: a text where a boolean is expected",
        ),
        (
            "http_server_config: {headers: {Content-Type: a}}".to_owned(),
            "http_server_config.headers.Content-Type is not known: use Content-Security-Policy, ",
        ),
        (
            "http_server_config: {headers: {x-frame-options: deny}}".to_owned(),
            "http_server_config.headers.x-frame-options is not known",
        ),
        (
            "http_server_config: {headers: {X-Frame-Options: DENY}}".to_owned(),
            "http_server_config.headers.X-Frame-Options is \"DENY\": use deny or sameorigin",
        ),
        (
            "http_server_config: {headers: {X-Content-Type-Options: }}".to_owned(),
            "http_server_config.headers.X-Content-Type-Options is \"\": use nosniff",
        ),
        (
            "http_server_config: {headers: {X-XSS-Protection: \"a\\nb\"}}".to_owned(),
            "http_server_config.headers.X-XSS-Protection has a character",
        ),
        (
            users("password"),
            "basic_auth_users.bob: the value is not a bcrypt hash",
        ),
        (users(""), "basic_auth_users.bob: invalid type: null"),
        (
            users(&CAROL.replace("$10$", "$99$")),
            "basic_auth_users.bob: the cost is 99: use one from 4 to 31",
        ),
        (
            users(&CAROL.replace("$10$", "$03$")),
            "basic_auth_users.bob: the cost is 3:",
        ),
        (
            users("yes"),
            "basic_auth_users.bob: invalid type: boolean `true`, expected a string: put it in quotes",
        ),
        (users("[a]"), "basic_auth_users.bob: invalid type: sequence"),
        (
            "rate_limit: {interval: 5}".to_owned(),
            "rate_limit.interval: \"5\" is not a duration such as",
        ),
        (
            "rate_limit: {interval: -1s}".to_owned(),
            "rate_limit.interval: \"-1s\" is not",
        ),
        (
            "rate_limit: {interval: 1s}".to_owned(),
            "rate_limit.burst is 0",
        ),
        (
            "rate_limit: {interval: 1s, burst: -1}".to_owned(),
            "rate_limit.burst: \"-1\" is not a whole number",
        ),
        (
            "rate_limit: {rate: 1}".to_owned(),
            "rate_limit.rate: unknown field",
        ),
    ]);
}

#[test]
fn messages_do_not_contain_passwords_hashes_and_keys() {
    for text in [
        "basic_auth_users: bob:SECRET",
        "basic_auth_users: {bob: SECRET}",
        "basic_auth_users: {bob: [SECRET]}",
        "tls_server_config: {key: SECRET}",
        "tls_server_config: {key: [SECRET], cert: a}",
    ] {
        let error = parse(text).err().unwrap();
        assert!(!error.contains("SECRET"), "{error}");
    }
}
