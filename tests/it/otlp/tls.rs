//! HTTPS: certificate authorities and client certificates.

use azure_scheduled_events_exporter::output_counters::ExportFailure;

use super::sending::{Sending, accepted};
use crate::support::{Pki, collector::FakeCollector, pki::TlsProxy};

/// A collector behind a TLS proxy with a certificate of this authority.
async fn collector(pki: &Pki, needs_client_certificate: bool) -> (FakeCollector, TlsProxy) {
    let collector = FakeCollector::scripted([]).await;
    let proxy = pki
        .tls_proxy("127.0.0.1", needs_client_certificate, collector.address)
        .await;
    (collector, proxy)
}

/// A sender that trusts the authorities in this file.
fn trusting(proxy: &TlsProxy, ca: &str) -> Sending {
    let environment = [("OTEL_EXPORTER_OTLP_CERTIFICATE", ca)];
    Sending::start(&proxy.base(), &environment)
}

#[tokio::test]
async fn only_the_given_authority_is_trusted() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let (_collector, proxy) = collector(&ours, false).await;
    let ca = ours.path("ca.pem");
    let mut sending = trusting(&proxy, &ca);
    sending.send(1).await;
    let untrusted = FakeCollector::scripted([]).await;
    for proxy in [
        theirs
            .tls_proxy("127.0.0.1", false, untrusted.address)
            .await,
        ours.tls_proxy("elsewhere", false, untrusted.address).await,
    ] {
        let mut sending = trusting(&proxy, &ca);
        sending.append([1]);
        let counts = sending.until_failed(ExportFailure::Tls, 2).await;
        assert_eq!((counts.exported, counts.spooled), (0, 1));
    }
    assert!(untrusted.received().is_empty());
}

#[tokio::test]
async fn client_certificate_is_presented() {
    let pki = Pki::new();
    let (collector, proxy) = collector(&pki, true).await;
    let (ca, certificate, key) = (
        pki.path("ca.pem"),
        pki.path("client.pem"),
        pki.path("client-key.pem"),
    );
    let trusted = ("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.as_str());
    let mut anonymous = Sending::start(&proxy.base(), &[trusted]);
    anonymous.append([1]);
    let counts = anonymous.until_failed(ExportFailure::Tls, 2).await;
    assert_eq!(counts.exported, 0);
    let environment = [
        trusted,
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &certificate),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &key),
    ];
    let mut identified = Sending::start(&proxy.base(), &environment);
    identified.send(2).await;
    assert_eq!(accepted(&collector), [2]);
}

#[tokio::test]
async fn missing_certificate_file_is_read_when_it_appears() {
    let pki = Pki::new();
    let (_collector, proxy) = collector(&pki, false).await;
    let late = pki.path("late.pem");
    let mut sending = trusting(&proxy, &late);
    sending.append([1]);
    let counts = sending.until_failed(ExportFailure::Tls, 1).await;
    assert_eq!(counts.exported, 0);
    pki.write("late.pem", &pki.authority());
    sending.until(|counts| counts.exported == 1).await;
}

#[tokio::test]
async fn renewed_authority_is_read_again() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let (_collector, proxy) = collector(&ours, false).await;
    ours.write("trusted.pem", &theirs.authority());
    let trusted = ours.path("trusted.pem");
    let mut sending = trusting(&proxy, &trusted);
    sending.append([1]);
    sending.until_failed(ExportFailure::Tls, 2).await;
    ours.write("trusted.pem", &ours.authority());
    sending.until(|counts| counts.exported == 1).await;
}

#[tokio::test]
async fn the_certificate_of_a_server_is_trusted_by_that_of_its_authority_alone() {
    let pki = Pki::new();
    let (_collector, proxy) = collector(&pki, false).await;
    let pinned = pki.path("server.pem");
    let mut sending = trusting(&proxy, &pinned);
    sending.append([1]);
    let counts = sending.until_failed(ExportFailure::Tls, 1).await;
    assert_eq!(counts.exported, 0);
    pki.write("server.pem", &pki.authority());
    sending.until(|counts| counts.exported == 1).await;
}
