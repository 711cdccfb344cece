//! HTTPS: only a collector that the given authority vouches for gets spans, and it may ask who sends them.

use std::sync::Arc;

use azure_scheduled_events_exporter::{
    otlp::spool::{Disk, Files as _},
    view::ExportFailure,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;

use super::sending::Sending;
use crate::support::{collector::FakeCollector, install_cryptography};

/// An authority, and files with what it has signed.
struct Pki {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Pki {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pki = Self {
            authority: CertifiedIssuer::self_signed(params, key).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        let (certificate, key) = pki.issue("exporter");
        pki.write("ca.pem", &pki.authority.pem());
        pki.write("client.pem", &certificate.pem());
        pki.write("client-key.pem", &key.serialize_pem());
        pki
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        (certificate, key)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.folder.path().join(name);
        Disk.write(&path, content.as_bytes()).unwrap();
    }

    /// A collector with a certificate of this authority, which lets in only those who have one of it too.
    async fn collector(&self, asks_who: bool) -> FakeCollector {
        install_cryptography();
        let (certificate, key) = self.issue("127.0.0.1");
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let builder = ServerConfig::builder();
        let builder = if asks_who {
            let mut roots = RootCertStore::empty();
            roots.add(self.authority.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
                .build()
                .unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        FakeCollector::with_tls(builder.with_single_cert(chain, key).unwrap()).await
    }
}

fn endpoint(collector: &FakeCollector) -> String {
    format!("https://{}", collector.address)
}

#[tokio::test]
async fn the_given_authority_is_trusted_and_no_other() {
    let (ours, theirs) = (Pki::new(), Pki::new());
    let collector = ours.collector(false).await;
    let ca = ours.path("ca.pem");
    let mut sending = Sending::start(
        &endpoint(&collector),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &ca)],
        None,
    );
    sending.append([1]).await;
    sending.until(|counts| counts.exported == 1).await;
    let stranger = theirs.collector(false).await;
    let mut sending = Sending::start(
        &endpoint(&stranger),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &ca)],
        None,
    );
    sending.append([1]).await;
    let counts = sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    assert_eq!((counts.exported, counts.spooled), (0, 1));
    assert!(stranger.received().is_empty());
}

#[tokio::test]
async fn a_collector_that_asks_who_sends_is_shown_our_certificate() {
    let pki = Pki::new();
    let collector = pki.collector(true).await;
    let (ca, certificate, key) = (
        pki.path("ca.pem"),
        pki.path("client.pem"),
        pki.path("client-key.pem"),
    );
    let trusted = ("OTEL_EXPORTER_OTLP_CERTIFICATE", ca.as_str());
    let mut nameless = Sending::start(&endpoint(&collector), &[trusted], None);
    nameless.append([1]).await;
    let counts = nameless
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    assert_eq!(counts.exported, 0);
    let environment = [
        trusted,
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &certificate),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &key),
    ];
    let mut known = Sending::start(&endpoint(&collector), &environment, None);
    known.append([2]).await;
    known.until(|counts| counts.exported == 1).await;
    assert_eq!(collector.taken(), ["2"]);
}

#[tokio::test]
async fn a_certificate_that_is_not_there_yet_is_waited_for() {
    let pki = Pki::new();
    let collector = pki.collector(false).await;
    let late = pki.path("late.pem");
    let mut sending = Sending::start(
        &endpoint(&collector),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &late)],
        None,
    );
    sending.append([1]).await;
    let counts = sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 1)
        .await;
    assert_eq!(counts.exported, 0);
    pki.write("empty.pem", "");
    pki.write("late.pem", &pki.authority.pem());
    sending.until(|counts| counts.exported == 1).await;
}

#[tokio::test]
async fn a_certificate_that_holds_nothing_is_a_failure_of_tls() {
    let pki = Pki::new();
    pki.write("empty.pem", "");
    let collector = pki.collector(false).await;
    let empty = pki.path("empty.pem");
    let mut sending = Sending::start(
        &endpoint(&collector),
        &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &empty)],
        None,
    );
    sending.append([1]).await;
    sending
        .until(|counts| counts.failures[&ExportFailure::Tls] >= 2)
        .await;
    assert!(collector.received().is_empty());
}
