//! HTTPS: certificate authorities and client certificates.

use azure_scheduled_events_exporter::snapshot::ExportFailure;

use super::sending::Sending;
use crate::support::{Pki, collector::FakeCollector, pki::TlsProxy};

/// A collector behind a TLS proxy with a certificate of this authority.
async fn collector(pki: &Pki, needs_client_certificate: bool) -> (FakeCollector, TlsProxy) {
    let collector = FakeCollector::scripted([]).await;
    let proxy = pki
        .tls_proxy("127.0.0.1", needs_client_certificate, collector.address)
        .await;
    (collector, proxy)
}

#[tokio::test]
async fn only_the_given_authority_is_trusted() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let (_collector, proxy) = collector(&ours, false).await;
    let ca = ours.path("ca.pem");
    let mut sending = Sending::start(
        &proxy.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &ca)],
        None,
    );
    sending.append([1]).await;
    sending.until(|counts| counts.exported == 1).await;
    let (untrusted, untrusted_proxy) = collector(&theirs, false).await;
    let mut sending = Sending::start(
        &untrusted_proxy.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &ca)],
        None,
    );
    sending.append([1]).await;
    let counts = sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    assert_eq!((counts.exported, counts.spooled), (0, 1));
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
    let mut anonymous = Sending::start(&proxy.base(), &[trusted], None);
    anonymous.append([1]).await;
    let counts = anonymous
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    assert_eq!(counts.exported, 0);
    let environment = [
        trusted,
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &certificate),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &key),
    ];
    let mut identified = Sending::start(&proxy.base(), &environment, None);
    identified.append([2]).await;
    identified.until(|counts| counts.exported == 1).await;
    assert_eq!(collector.accepted(), ["2"]);
}

#[tokio::test]
async fn missing_certificate_file_is_read_when_it_appears() {
    let pki = Pki::new();
    let (_collector, proxy) = collector(&pki, false).await;
    let late = pki.path("late.pem");
    let mut sending = Sending::start(
        &proxy.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &late)],
        None,
    );
    sending.append([1]).await;
    let counts = sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 1)
        .await;
    assert_eq!(counts.exported, 0);
    pki.write("empty.pem", "");
    pki.write("late.pem", &pki.authority());
    sending.until(|counts| counts.exported == 1).await;
}

#[tokio::test]
async fn renewed_authority_is_read_again() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let (_collector, proxy) = collector(&ours, false).await;
    ours.write("trusted.pem", &theirs.authority());
    let trusted = ours.path("trusted.pem");
    let mut sending = Sending::start(
        &proxy.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &trusted)],
        None,
    );
    sending.append([1]).await;
    sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    ours.write("trusted.pem", &ours.authority());
    sending.until(|counts| counts.exported == 1).await;
}

#[tokio::test]
async fn empty_certificate_file_is_a_tls_failure() {
    let pki = Pki::new();
    pki.write("empty.pem", "");
    let (collector, proxy) = collector(&pki, false).await;
    let empty = pki.path("empty.pem");
    let mut sending = Sending::start(
        &proxy.base(),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &empty)],
        None,
    );
    sending.append([1]).await;
    sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    assert!(collector.received().is_empty());
}
