//! Documents that are accepted, their settings and notes.

use rustls::{NamedGroup, version::TLS13};

use super::{parse, with_tls};
use crate::http::web_config::{settings::Settings, tls_settings::TlsSettings};

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
