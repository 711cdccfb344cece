//! TLS of our clients: whom they trust, and the certificate that they show.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use crate::{
    base::file::{MAX_CERTIFICATES_BYTES, MAX_SECRET_BYTES, read_given},
    http::pem,
};

/// The PEM files of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates that replace the system's authorities.
    pub ca: Option<PathBuf>,
    pub client: Option<ClientCertificate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Which file of [`TlsFiles`] cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TlsError {
    Ca(PathBuf, String),
    Certificate(PathBuf, String),
    Key(PathBuf, String),
    /// The system has no certificate authorities.
    System(String),
}

impl TlsFiles {
    /// Reads the files.
    pub(crate) fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let system = |error: Error| TlsError::System(error.to_string());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(system)?;
        let builder = match &self.ca {
            Some(path) => {
                let verifier = PinnedVerifier::read(path, &provider);
                let verifier = verifier.map_err(|why| TlsError::Ca(path.clone(), why))?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(verifier))
            }
            None => builder.try_with_platform_verifier().map_err(system)?,
        };
        let mut config = match &self.client {
            Some(client) => {
                let in_certificate =
                    |why: &str| TlsError::Certificate(client.certificate.clone(), why.to_owned());
                let in_key = |why: &str| TlsError::Key(client.key.clone(), why.to_owned());
                let chain = read_given(&client.certificate, MAX_SECRET_BYTES)
                    .map_err(|why| in_certificate(&why))?;
                let chain = pem::certificates(&chain).map_err(in_certificate)?;
                let key = read_given(&client.key, MAX_SECRET_BYTES).map_err(|why| in_key(&why))?;
                let key = pem::private_key(&key).map_err(in_key)?;
                if let Some(problem) = pem::wrong_order(&chain, &key, &provider) {
                    return Err(in_certificate(problem));
                }
                let made = builder.with_client_auth_cert(chain, key);
                made.map_err(|error| match error {
                    Error::InconsistentKeys(_) => in_key("does not belong to the certificate"),
                    Error::General(_) => in_key(
                        "has a private key that is not supported: use RSA, ECDSA with P-256 or P-384, or Ed25519",
                    ),
                    error => in_certificate(&format!("cannot be used: {error}")),
                })?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Verifies servers by the certificates of a file. A certificate of the file that is itself that of the server is
/// trusted too, also if it may issue others, as `openssl req -x509` makes it: RFC 5280 does not rule it out, webpki does.
#[derive(Debug)]
struct PinnedVerifier {
    pinned: Vec<CertificateDer<'static>>,
    chain: Arc<WebPkiServerVerifier>,
}

impl PinnedVerifier {
    fn read(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let pinned = pem::certificates(&read_given(path, MAX_CERTIFICATES_BYTES)?)?;
        let mut roots = RootCertStore::empty();
        for certificate in &pinned {
            roots
                .add(certificate.clone())
                .map_err(|error| format!("cannot be used: {error}"))?;
        }
        let chain =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let chain = chain
            .build()
            .map_err(|error| format!("cannot be used: {error}"))?;
        Ok(Self { pinned, chain })
    }
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self
            .chain
            .verify_server_cert(end_entity, intermediates, name, ocsp, now);
        match verified {
            // webpki has checked the validity before.
            Err(error) if is_authority(&error) && self.pinned.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// The server showed the certificate of an authority as its own.
pub(crate) fn is_authority(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(error))) = error else {
        return false;
    };
    error.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}
