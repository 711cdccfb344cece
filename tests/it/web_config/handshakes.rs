//! Versions, client certificates, and clients that do not finish a handshake.

use std::time::Duration;

use rustls::{
    CipherSuite, NamedGroup, ProtocolVersion,
    version::{TLS12, TLS13},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{Protected, TLS, client::Tls};
use crate::support::{DEADLINE, Pki};

const RECORD_OF_A_HANDSHAKE: &[u8] = b"\x16\x03\x01\x02\x00\x01";

#[tokio::test]
async fn the_versions_are_those_of_the_file() {
    for (lines, allowed) in [
        ("", [true, true]),
        ("  min_version: TLS13\n", [false, true]),
        ("  max_version: TLS12\n", [true, false]),
        ("  cipher_suites: [TLS_AES_128_GCM_SHA256]\n", [false, true]),
        (
            "  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]\n  curve_preferences: [CurveP384]\n",
            [true, true],
        ),
    ] {
        let exporter = Protected::start(&format!("{TLS}{lines}")).await;
        for (version, is_allowed) in [&TLS12, &TLS13].into_iter().zip(allowed) {
            let client = exporter.tls_with(&Tls {
                version: Some(version),
                ..Tls::default()
            });
            let connected = client.connect_tls().await;
            assert_eq!(
                connected.is_ok(),
                is_allowed,
                "{lines} {version:?}: {connected:?}"
            );
            if let Ok(stream) = connected {
                let (_, session) = stream.get_ref();
                let expected = if *version == TLS12 {
                    ProtocolVersion::TLSv1_2
                } else {
                    ProtocolVersion::TLSv1_3
                };
                assert_eq!(session.protocol_version(), Some(expected));
                if lines.contains("CurveP384") {
                    let group = session.negotiated_key_exchange_group().unwrap().name();
                    assert_eq!(group, NamedGroup::secp384r1);
                }
                if lines.contains("ECDHE") && *version == TLS12 {
                    let suite = session.negotiated_cipher_suite().unwrap().suite();
                    let expected = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
                    assert_eq!(suite, expected);
                }
                assert_eq!(client.status("/metrics", &[]).await, 200);
            }
        }
    }
}

/// None, one of the client CA, one with another name, and one of a foreign CA.
const CLIENTS: [&str; 4] = ["none", "ours", "named", "foreign"];

#[tokio::test]
async fn client_certificates_are_asked_for_as_the_file_says_on_every_path() {
    let foreign = Pki::new();
    foreign.write_certificate("foreign", &["named.example.com", "10.1.2.3"]);
    let with_ca = "  client_ca_file: ca.pem\n";
    let names =
        "  client_allowed_sans: [named.example.com, \"spiffe://example.com/x\", 10.1.2.3]\n";
    let both = format!("{with_ca}{names}");
    let (yes, no) = (true, false);
    for (kind, lines, accepted) in [
        ("NoClientCert", "", [yes, yes, yes, yes]),
        ("RequestClientCert", "", [yes, yes, yes, yes]),
        ("RequestClientCert", names, [yes, no, yes, yes]),
        ("RequireAnyClientCert", "", [no, yes, yes, yes]),
        ("RequireClientCert", with_ca, [no, yes, yes, yes]),
        ("VerifyClientCertIfGiven", "", [yes, no, no, no]),
        ("VerifyClientCertIfGiven", with_ca, [yes, yes, yes, no]),
        ("RequireAndVerifyClientCert", with_ca, [no, yes, yes, no]),
        ("RequireAndVerifyClientCert", &both, [no, no, yes, no]),
    ] {
        let pki = Pki::new();
        pki.write_certificate("ours", &["ours.example.com", "10.9.9.9"]);
        pki.write_certificate("named", &["other.example.com", "spiffe://example.com/x"]);
        let config = format!("{TLS}  client_auth_type: {kind}\n{lines}");
        let exporter = Protected::start_with(pki, &config, &[]).await;
        for (name, is_accepted) in CLIENTS.into_iter().zip(accepted) {
            let certificate = match name {
                "none" => None,
                "foreign" => Some((&foreign, name)),
                name => Some((&exporter.pki, name)),
            };
            for version in [&TLS12, &TLS13] {
                let client = exporter.tls_with(&Tls {
                    version: Some(version),
                    certificate,
                });
                for path in ["/metrics", "/-/healthy"] {
                    let response = client.get(path, &[]).await;
                    let found = response.is_ok_and(|response| response.status == 200);
                    assert_eq!(found, is_accepted, "{config} {name} {version:?} {path}");
                }
            }
        }
    }
}

#[tokio::test]
async fn http_on_the_tls_port_is_answered_with_a_sentence() {
    let exporter = Protected::start(TLS).await;
    let response = exporter.plain().get("/metrics", &[]).await.unwrap();
    assert_eq!(response.status, 400);
    assert_eq!(
        response.body,
        "Client sent an HTTP request to an HTTPS server.\n"
    );
    // A request that is larger than what the system buffers does not hide the response.
    let header = format!("A: {}", "b".repeat(20_000));
    assert_eq!(exporter.plain().status("/", &[&header]).await, 400);
    assert_eq!(exporter.tls().status("/metrics", &[]).await, 200);
}

#[tokio::test]
async fn other_bytes_close_the_connection_and_no_other() {
    let exporter = Protected::start(TLS).await;
    for bytes in [
        &b"\0\0\0\0\0\0\0\0"[..],
        b"\x16\x03\x01\xff\xff\xff\xff",
        b"SSH-2.0-x\r\n",
        b"\x80\x2e\x01\x03\x01",
    ] {
        let mut stream = TcpStream::connect(&exporter.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        // A reset is an end too.
        timeout(DEADLINE, stream.read_to_end(&mut rest))
            .await
            .unwrap()
            .ok();
    }
    assert_eq!(exporter.tls().status("/metrics", &[]).await, 200);
}

#[tokio::test]
async fn a_client_that_has_closed_its_side_gets_its_response() {
    let exporter = Protected::start(TLS).await;
    let mut stream = exporter.tls().connect_tls().await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut response = String::new();
    let read = stream.read_to_string(&mut response);
    timeout(DEADLINE, read).await.unwrap().unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    assert!(response.contains("azure_scheduled_events_up"), "{response}");
}

/// It is closed after the time that a request has for its head.
#[tokio::test]
async fn a_handshake_that_hangs_is_closed() {
    let exporter = Protected::start(TLS).await;
    for bytes in [&b""[..], RECORD_OF_A_HANDSHAKE] {
        let began = Instant::now();
        let mut stream = TcpStream::connect(&exporter.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut rest = Vec::new();
        timeout(DEADLINE, stream.read_to_end(&mut rest))
            .await
            .unwrap()
            .ok();
        assert!(began.elapsed() > Duration::from_secs(3), "{bytes:?}");
    }
}

#[tokio::test]
async fn a_handshake_that_hangs_does_not_delay_the_shutdown() {
    let exporter = Protected::start(TLS).await;
    let mut hanging = TcpStream::connect(&exporter.address).await.unwrap();
    hanging.write_all(RECORD_OF_A_HANDSHAKE).await.unwrap();
    // Connections are accepted in order: once this one is served, the other one has its place.
    assert_eq!(exporter.tls().status("/metrics", &[]).await, 200);
    let began = Instant::now();
    exporter.process.signal("TERM");
    let ended = exporter.process.end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(4), "{ended:?}");
    assert!(!ended.log.contains("cut off"), "{ended:?}");
}
