//! A list of documents: accepted with their settings and notes, or refused with a line that names the setting.

use std::path::Path;

use rustls::NamedGroup;

use super::super::web_settings::{Settings, TlsSettings};

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
        "\u{feff}--- # comment\n...\n",
        "# comment\n",
        "null",
        "tls_server_config:\n",
        "basic_auth_users:\n",
        "basic_auth_users: {}",
        "http_server_config: ~\nrate_limit: null\n",
        "tls_server_config: {min_version: TLS13, cert: }",
        "tls_server_config: {cert_file: \"\", key_file: ''}",
        "http_server_config: {http2: false, headers: {}}",
        "http_server_config: {http2: Off}",
    ] {
        let settings = accepted(text);
        assert!(settings.tls.is_none(), "{text}");
        assert!(
            settings.users.is_empty() && settings.headers.is_empty(),
            "{text}"
        );
        assert!(settings.notes.is_empty(), "{text}: {:?}", settings.notes);
    }
}

#[test]
fn settings_without_effect_have_a_note_each() {
    for (text, words) in [
        ("http_server_config: {http2: true}", "http2 has no effect"),
        ("http_server_config: {http2: yes}", "http2 has no effect"),
        (
            "rate_limit: {interval: 1s, burst: 3}",
            "rate_limit has no effect",
        ),
    ] {
        let notes = accepted(text).notes;
        assert!(notes.len() == 1 && notes[0].contains(words), "{notes:?}");
    }
}

#[test]
fn lists_select_suites_curves_and_names() {
    let settings = tls(
        "cipher_suites:\n- TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n- TLS_AES_128_GCM_SHA256\n\
         curve_preferences: [CurveP384, X25519, CurveP256]\n\
         client_allowed_sans: [example.com, \"spiffe://a@example.com/a\", 10.0.0.1, \"::1\"]",
    );
    assert_eq!(
        settings.certificate.path,
        Path::new("/etc/exporter/server.crt")
    );
    assert_eq!(
        tls12_suites(&settings),
        ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
    );
    let curves = settings.provider.kx_groups.iter();
    let curves: Vec<_> = curves.map(|group| group.name()).collect();
    assert_eq!(
        curves,
        [
            NamedGroup::secp384r1,
            NamedGroup::X25519,
            NamedGroup::secp256r1
        ]
    );
    let names = settings.allowed_names.unwrap();
    assert_eq!(
        names,
        ["example.com", "spiffe://a@example.com/a", "10.0.0.1", "::1"]
    );
}

#[test]
fn empty_lists_are_the_default() {
    let settings = tls("cipher_suites: []\ncurve_preferences: []\nclient_allowed_sans:");
    assert_eq!(tls12_suites(&settings).len(), 6);
    assert_eq!(settings.provider.kx_groups.len(), 3);
    assert!(settings.allowed_names.is_none());
}

/// A document => the beginning of its error. `TLS` stands for a certificate and a key, `ALICE` and `BOB` for users, and
/// `␤` for the end of a line.
const REFUSED: &str = r#"
    text => not a mapping
    [1] => not a mapping
    a: 'b => found unexpected end of stream at line 1 column 6
    tls_config: {} => unknown field `tls_config`, expected one of `tls_server_config`,
    rate_limit:␤rate_limit: => duplicate entry with key "rate_limit"
    {}␤---␤{} => deserializing from YAML containing more than one document
    tls_server_config: text => tls_server_config: not a mapping at line 1 column 20
    rate_limit: [1s, 1] => rate_limit: not a mapping
    rate_limit: {rate: 1} => rate_limit: unknown field `rate`
    basic_auth_users: [a] => basic_auth_users: not a map
    tls_server_config:␤  cert_filse: a => tls_server_config: unknown field `cert_filse`, expected one of `cert`
    TLS cert_file: a => tls_server_config: duplicate entry with key "cert_file"
    TLS min_version: TLS10 => tls_server_config.min_version: unknown variant `TLS10`, expected `TLS12` or `TLS13` at line 4
    TLS max_version: '' => tls_server_config.max_version: unknown variant ``
    TLS min_version: TLS13␤max_version: TLS12 => tls_server_config.min_version is newer than max_version
    TLS client_auth_type: Foo => tls_server_config.client_auth_type: unknown variant `Foo`, expected one of `NoClientCert`
    TLS client_ca_file: a => tls_server_config.client_ca_file has no effect without
    TLS client_ca_file: a␤client_auth_type: NoClientCert => tls_server_config.client_ca_file has no effect without
    TLS client_auth_type: RequireAndVerifyClientCert => tls_server_config.client_auth_type needs tls_server_config.client_ca_file
    TLS client_allowed_sans: [] => tls_server_config.client_allowed_sans needs
    TLS client_allowed_sans: a => tls_server_config.client_allowed_sans: not a sequence
    TLS client_allowed_sans: [[a]] => tls_server_config.client_allowed_sans[0]: not a string
    TLS client_allowed_sans: [example.com, a@b.c] => tls_server_config.client_allowed_sans needs DNS names
    TLS cipher_suites: [TLS_RSA_WITH_RC4_128_SHA] => tls_server_config.cipher_suites has "TLS_RSA_WITH_RC4_128_SHA": use TLS_AES_256_GCM_SHA384, TLS_
    TLS cipher_suites: [TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA] => tls_server_config.cipher_suites has "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"
    TLS curve_preferences: [CurveP521] => tls_server_config.curve_preferences has "CurveP521": use X25519, CurveP256, CurveP384
    TLS cert: a => tls_server_config.cert cannot be in this file: write it to a file of its own, and set tls_server_config.cert_file
    TLS key: [a] => tls_server_config.key cannot be in this file
    TLS client_ca: a => tls_server_config.client_ca cannot be in this file
    tls_server_config: {key_file: a} => tls_server_config.cert_file is missing
    tls_server_config: {cert_file: a} => tls_server_config.key_file is missing
    tls_server_config: {client_auth_type: NoClientCert} => tls_server_config.cert_file is missing
    http_server_config: {http3: true} => http_server_config: unknown field `http3`
    http_server_config: {headers: {Content-Type: a}} => http_server_config.headers.Content-Type is not known: use Content-Security-Policy,
    http_server_config: {headers: {x-frame-options: deny}} => http_server_config.headers.x-frame-options is not known
    http_server_config: {headers: {X-Frame-Options: DENY}} => http_server_config.headers.X-Frame-Options is "DENY": use deny or sameorigin
    http_server_config: {headers: {X-Content-Type-Options: }} => http_server_config.headers.X-Content-Type-Options is "": use nosniff
    http_server_config: {headers: {X-XSS-Protection: "a\nb"}} => http_server_config.headers.X-XSS-Protection has a character
    ALICE BOB password => basic_auth_users.bob: the value is not a bcrypt hash
    ALICE BOB  => basic_auth_users.bob: the value is not a bcrypt hash
    ALICE BOB $2y$99$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu => basic_auth_users.bob: the cost is 99: use one from 4 to 31
    ALICE BOB $2y$03$qRTBuFoULoYNA7AQ/F3ck.trZBPyjV64.oA4ZsSBCIWvXuvQlQTuu => basic_auth_users.bob: the cost is 3:
    ALICE BOB yes => basic_auth_users.bob: the value is not a bcrypt hash
    ALICE BOB [a] => basic_auth_users.bob: not a string at line 3 column 8
    ALICE BOB a␤  alice: a => basic_auth_users: duplicate entry with key "alice"
"#;

#[test]
fn invalid_documents_are_refused_with_the_setting() {
    let nested = "[".repeat(1_000);
    let list = |of: &str| format!("[{}]", [of; 9].join(", "));
    let lists = (0..9).map(|level| {
        format!(
            "a{}: &a{} {}\n",
            level + 1,
            level + 1,
            list(&format!("*a{level}"))
        )
    });
    let laughs = lists.fold("a0: &a0 x\n".to_owned(), |text, line| text + &line);
    let rows = REFUSED.lines().filter(|row| !row.is_empty());
    let rows = rows.map(|row| row.trim_start().split_once(" => ").unwrap());
    let others = [
        ("a\u{7}\u{202e}: 1", "control characters"),
        (&*nested, "recursion limit exceeded"),
        (&laughs, "repetition limit exceeded"),
    ];
    for (text, expected) in rows.chain(others) {
        let alice = format!("basic_auth_users:\n  alice: {CAROL}\n  bob:");
        let text = text.replace('␤', "\n").replace("ALICE BOB", &alice);
        let text = text.strip_prefix("TLS ").map_or(text.clone(), with_tls);
        let error = parse(&text).err().expect(&text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

/// In the place of a section, in the place of a hash, and in forms that YAML gives a meaning.
#[test]
fn messages_do_not_contain_passwords_and_hashes() {
    let hashes = [
        "SECRET",
        "[SECRET]",
        "{SECRET: 1}",
        "*SECRET",
        "&SECRET",
        "&SECRET x",
        "!SECRET",
        "!SECRET x",
        "!!SECRET x",
        "!x!SECRET x",
        "%SECRET",
        "@SECRET",
        "`SECRET",
        "a: SECRET",
        "'SECRET",
        "\"SECRET\\q\"",
        "'a'SECRET",
        "|SECRET",
        ">SECRET",
        "{SECRET",
        "[SECRET",
        "SECRET, expected a",
    ];
    let sections = [
        "bob:SECRET",
        "[SECRET]",
        "SECRET invalid type: x, expected SECRET",
    ];
    let texts = hashes.map(|hash| format!("basic_auth_users:\n  bob: {hash}\n"));
    let sections = sections.map(|section| format!("basic_auth_users: {section}\n"));
    let key = "tls_server_config:\n  key: SECRET\n".to_owned();
    for text in texts.into_iter().chain(sections).chain([key]) {
        let error = parse(&text).err().expect(&text);
        assert!(!error.contains("SECRET"), "{text}{error}");
    }
}
