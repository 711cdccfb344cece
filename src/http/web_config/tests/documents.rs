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

/// A document => the beginning of its error. `TLS` stands for a certificate and a key, `ALICE` and `BOB` for users, and
/// `␤` for the end of a line.
const REFUSED: &str = r#"
    text => the file: a text where a mapping of keys to values is expected
    [1] => the file is a list
    a: 'b => line 1, column 4: the file is not valid YAML
    tls_config: {} => tls_config: unknown field `tls_config`, expected one of `tls_server_config`,
    rate_limit:␤rate_limit: => line 2, column 1: the file has "rate_limit" twice
    tls_server_config: text => tls_server_config: a text where a mapping of keys to values is expected
    rate_limit: [1s, 1] => rate_limit is a list
    basic_auth_users: [a] => basic_auth_users: invalid type: sequence, expected a map
    tls_server_config:␤  cert_filse: a => tls_server_config.cert_filse: unknown field `cert_filse`, expected one of `cert`
    TLS cert_file: a => line 4, column 3: the file has "cert_file" twice
    TLS min_version: TLS14 => tls_server_config.min_version: unknown variant `TLS14`, expected one of `TLS10`
    TLS max_version: '' => tls_server_config.max_version: unknown variant ``
    TLS max_version: TLS11 => tls_server_config.max_version leaves no version
    TLS min_version: TLS13␤max_version: TLS12 => tls_server_config.min_version is newer than max_version
    TLS client_auth_type: Foo => tls_server_config.client_auth_type: unknown variant `Foo`, expected one of `NoClientCert`
    TLS client_ca_file: a => tls_server_config.client_ca_file has no effect without
    TLS client_ca: a␤client_auth_type: NoClientCert => tls_server_config.client_ca has no effect without
    TLS client_auth_type: RequireAndVerifyClientCert => tls_server_config.client_auth_type needs tls_server_config.client_ca_file
    TLS client_allowed_sans: [] => tls_server_config.client_allowed_sans leaves no name
    TLS client_allowed_sans: a => tls_server_config.client_allowed_sans: a text where a sequence is expected
    TLS client_allowed_sans: [[a]] => tls_server_config.client_allowed_sans[0]: invalid type: sequence
    TLS client_allowed_sans: [a@b.c] => tls_server_config.client_allowed_sans leaves no name
    TLS cipher_suites: [TLS_RSA_WITH_RC4_128_SHA] => tls_server_config.cipher_suites has "TLS_RSA_WITH_RC4_128_SHA", which is not known
    TLS cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA] => tls_server_config.cipher_suites leaves no cipher suite
    TLS max_version: TLS12␤cipher_suites: [TLS_AES_128_GCM_SHA256] => tls_server_config.cipher_suites leaves no cipher suite
    TLS curve_preferences: [CurveP521] => tls_server_config.curve_preferences leaves no curve
    TLS curve_preferences: [X25519MLKEM768] => tls_server_config.curve_preferences has "X25519MLKEM768", which is not known
    TLS prefer_server_cipher_suites: 1 => tls_server_config.prefer_server_cipher_suites: a text where a boolean is expected
    TLS cert: [a] => tls_server_config.cert: invalid type: sequence
    tls_server_config: {key: a} => tls_server_config.cert is missing: set it or tls_server_config.cert_file
    tls_server_config: {cert: a} => tls_server_config.key is missing: set it or tls_server_config.key_file
    tls_server_config: {client_auth_type: NoClientCert} => tls_server_config.cert is missing
    http_server_config: {http3: true} => http_server_config.http3: unknown field `http3`
    http_server_config: {http2: 'true'} => http_server_config.http2: a text where a boolean is expected
    http_server_config: {headers: {Content-Type: a}} => http_server_config.headers.Content-Type is not known: use Content-Security-Policy,
    http_server_config: {headers: {x-frame-options: deny}} => http_server_config.headers.x-frame-options is not known
    http_server_config: {headers: {X-Frame-Options: DENY}} => http_server_config.headers.X-Frame-Options is "DENY": use deny or sameorigin
    http_server_config: {headers: {X-Content-Type-Options: }} => http_server_config.headers.X-Content-Type-Options is "": use nosniff
    http_server_config: {headers: {X-XSS-Protection: "a\nb"}} => http_server_config.headers.X-XSS-Protection has a character
    ALICE BOB password => basic_auth_users.bob: the value is not a bcrypt hash
    ALICE BOB  => basic_auth_users.bob: invalid type: null
    ALICE BOB $2y$99$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu => basic_auth_users.bob: the cost is 99: use one from 4 to 31
    ALICE BOB $2y$03$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu => basic_auth_users.bob: the cost is 3:
    ALICE BOB yes => basic_auth_users.bob: invalid type: boolean `true`, expected a string: put it in quotes
    ALICE BOB [a] => basic_auth_users.bob: invalid type: sequence
    rate_limit: {interval: 5} => rate_limit.interval: "5" is not a duration such as
    rate_limit: {interval: -1s} => rate_limit.interval: "-1s" is not
    rate_limit: {interval: 1s} => rate_limit.burst is 0
    rate_limit: {interval: 1s, burst: -1} => rate_limit.burst: "-1" is not a whole number
    rate_limit: {rate: 1} => rate_limit.rate: unknown field
"#;

#[test]
fn invalid_documents_are_refused_with_the_line_or_the_setting() {
    let rows = REFUSED.lines().filter(|row| !row.is_empty());
    let rows = rows.map(|row| row.trim_start().split_once(" => ").unwrap());
    for (text, expected) in rows.chain([("a\u{7}\u{202e}: 1", "")]) {
        let alice = format!("basic_auth_users:\n  alice: {CAROL}\n  bob:");
        let text = text.replace('␤', "\n").replace("ALICE BOB", &alice);
        let text = text.strip_prefix("TLS ").map_or(text.clone(), with_tls);
        let error = parse(&text).err().expect(&text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
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
