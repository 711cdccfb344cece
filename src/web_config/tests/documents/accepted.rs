//! Documents that are accepted, their settings and notes.

use std::time::Duration;

use super::{CAROL, parse, with_tls};
use crate::web_config::{
    password::PasswordHash,
    rate_limit::RateLimit,
    settings::Settings,
    tls_settings::{ClientAuth, Curve, PemSource, TlsSettings},
};

fn accepted(text: &str) -> Settings {
    parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
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
