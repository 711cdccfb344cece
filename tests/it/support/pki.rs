//! A certificate authority, and a TLS proxy in front of a fake without TLS.

use std::{net::SocketAddr, sync::Arc};

use azure_scheduled_events_exporter::file::{OsFilesystem, replace};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

use super::install_cryptography;

/// A certificate authority and its files `ca.pem`, `client.pem` and `client-key.pem`.
pub(crate) struct Pki {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Pki {
    pub(crate) fn new() -> Self {
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
        self.issue_for(&[name])
    }

    /// DNS names, IP addresses and URIs.
    fn issue_for(&self, names: &[&str]) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let (uris, names): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| name.contains("//"));
        let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(names).unwrap();
        let uris = uris
            .into_iter()
            .map(|uri| SanType::URI(uri.try_into().unwrap()));
        params.subject_alt_names.extend(uris);
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        (certificate, key)
    }

    /// The certificate of the authority.
    pub(crate) fn authority(&self) -> String {
        self.authority.pem()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.folder.path().join(name);
        replace(&mut OsFilesystem, &path, content.as_bytes()).unwrap();
    }

    /// Writes `FILE.pem` and `FILE-key.pem` with a new certificate and its key.
    pub(crate) fn write_certificate(&self, file: &str, names: &[&str]) {
        let (certificate, key) = self.issue_for(names);
        self.write(&format!("{file}.pem"), &certificate.pem());
        self.write(&format!("{file}-key.pem"), &key.serialize_pem());
    }

    /// A proxy in front of `inside` with a certificate for 127.0.0.1 that is its own authority, as `openssl req -x509` makes
    /// it, in the file `self-signed.pem`.
    pub(crate) async fn self_signed_proxy(&self, inside: SocketAddr) -> TlsProxy {
        install_cryptography();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        self.write("self-signed.pem", &certificate.pem());
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let builder = ServerConfig::builder().with_no_client_auth();
        let config = builder.with_single_cert(vec![certificate.der().clone()], key);
        TlsProxy::open(TlsAcceptor::from(Arc::new(config.unwrap())), inside).await
    }

    /// A proxy in front of `inside` with a certificate for `name`, in the file `server.pem`. With `needs_client_certificate` it requires client
    /// certificates of this authority.
    pub(crate) async fn tls_proxy(
        &self,
        name: &str,
        needs_client_certificate: bool,
        inside: SocketAddr,
    ) -> TlsProxy {
        install_cryptography();
        let (certificate, key) = self.issue(name);
        self.write("server.pem", &certificate.pem());
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let builder = ServerConfig::builder();
        let builder = if needs_client_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(self.authority.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
                .build()
                .unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let config = builder.with_single_cert(chain, key).unwrap();
        TlsProxy::open(TlsAcceptor::from(Arc::new(config)), inside).await
    }
}

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct TlsProxy {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl TlsProxy {
    async fn open(tls: TlsAcceptor, inside: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _peer) = listener.accept().await.unwrap();
                let tls = tls.clone();
                tokio::spawn(async move {
                    // Some tests are about clients that it rejects.
                    if let Ok(mut outer) = tls.accept(stream).await {
                        let mut inner = TcpStream::connect(inside).await.unwrap();
                        copy_bidirectional(&mut outer, &mut inner).await.ok();
                    }
                });
            }
        });
        Self { address, accepting }
    }

    /// `https://…`, without a path.
    pub(crate) fn base(&self) -> String {
        format!("https://{}", self.address)
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
