//! Documents that are accepted, their settings and notes.

use std::time::Duration;

use rustls::{
    NamedGroup,
    version::{TLS12, TLS13},
};

use super::{CAROL, parse, with_tls};
use crate::http::web_config::{
    rate_limit::RateLimit,
    settings::Settings,
    tls_settings::{ClientAuth, Pem, TlsSettings},
};

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
fn paths_are_relative_to_the_file() {
    let settings =
        tls("client_ca_file: /ca/root.pem\nclient_auth_type: RequireAndVerifyClientCert");
    let path = |pem: &Pem| pem.file.as_ref().unwrap().to_str().unwrap().to_owned();
    assert_eq!(path(&settings.certificate), "/etc/exporter/server.crt");
    assert_eq!(path(&settings.key), "/etc/exporter/server.key");
    assert_eq!(path(&settings.client_ca.unwrap()), "/ca/root.pem");
}

#[test]
fn certificates_and_keys_can_be_inline() {
    let text = "tls_server_config:\n  cert: |\n    first\n    second\n  key: \"secret\"\n";
    let settings = accepted(text).tls.unwrap();
    assert_eq!(settings.certificate.text, "first\nsecond\n");
    assert_eq!(settings.key.text, "secret");
    assert!(settings.key.file.is_none());
    let both = tls("cert: inline\nkey: inline");
    assert!(both.certificate.file.is_some(), "the file wins");
}

#[test]
fn client_auth_types_are_those_of_go() {
    for (name, expected) in [
        ("NoClientCert", ClientAuth::NoClientCert),
        ("RequestClientCert", ClientAuth::RequestClientCert),
        ("RequireAnyClientCert", ClientAuth::RequireAnyClientCert),
        ("RequireClientCert", ClientAuth::RequireAnyClientCert),
        (
            "VerifyClientCertIfGiven",
            ClientAuth::VerifyClientCertIfGiven,
        ),
    ] {
        assert_eq!(
            tls(&format!("client_auth_type: {name}")).client_auth,
            expected
        );
    }
    let verified = tls("client_auth_type: RequireAndVerifyClientCert\nclient_ca: x");
    assert_eq!(verified.client_auth, ClientAuth::RequireAndVerifyClientCert);
    assert_eq!(tls("").client_auth, ClientAuth::NoClientCert);
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
        let allowed = [&TLS12, &TLS13].map(|version| tls.versions.contains(&version));
        assert_eq!(allowed, [tls12, tls13], "{lines}");
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
    let found = settings.headers.iter();
    let found = found.map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    let expected = headers.map(|(name, value)| (name.to_ascii_lowercase(), value));
    let expected = expected.iter().map(|(name, value)| (name.as_str(), *value));
    assert!(found.eq(expected), "{:?}", settings.headers);
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
    assert_eq!(settings.users["carol"].as_str(), CAROL);
    let interval = Duration::from_millis(1_500);
    assert_eq!(settings.rate_limit, RateLimit { interval, burst: 3 });
}
