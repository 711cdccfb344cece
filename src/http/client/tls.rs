//! TLS of our clients: whom they trust, and the certificate that they show.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use hyper_rustls::ConfigBuilderExt as _;
use reqwest::Url;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use super::url::shown;
use crate::{
    base::file::{MAX_CERTIFICATES_BYTES, MAX_SECRET_BYTES, read_given},
    http::pem::{self, PairError},
};

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

impl TlsFiles {
    /// Reads the files. An error names the setting: of the authorities, the certificate or its key.
    pub(super) fn config(
        &self,
        url: &Url,
        settings: [&'static str; 3],
    ) -> Result<ClientConfig, String> {
        let [ca_setting, certificate_setting, key_setting] = settings;
        let provider = Arc::new(ring::default_provider());
        let without_authorities = |cause: Error| {
            format!(
                "no client can be made for {}: {cause}; https needs the certificate authorities of the system (package \
                 ca-certificates, or SSL_CERT_FILE) or {ca_setting}",
                shown(url.as_str())
            )
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(without_authorities)?;
        let builder = match &self.ca {
            Some(path) => {
                let verifier = PinnedVerifier::read(path, &provider);
                let verifier = verifier.map_err(|why| line(ca_setting, path, &why))?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(verifier))
            }
            None => builder
                .try_with_platform_verifier()
                .map_err(without_authorities)?,
        };
        let Some(ClientCertificate { certificate, key }) = &self.client else {
            return Ok(builder.with_no_client_auth());
        };
        let in_certificate = |why: String| line(certificate_setting, certificate, &why);
        let in_key = |why: String| line(key_setting, key, &why);
        let chain = read_given(certificate, MAX_SECRET_BYTES).map_err(in_certificate)?;
        let key = read_given(key, MAX_SECRET_BYTES).map_err(in_key)?;
        let pair = pem::certified_key(&chain, &key, &provider);
        let pair = pair.map_err(|error| match error {
            PairError::Certificate(why) => in_certificate(why),
            PairError::Key(why) => in_key(why.to_owned()),
        })?;
        Ok(builder.with_client_cert_resolver(pair))
    }
}

fn line(setting: &str, path: &Path, why: &str) -> String {
    format!("{setting}: {} {why}", path.display())
}

/// Verifies servers by the certificates of a file. A self-signed one that is itself that of the server is trusted too,
/// also if it may issue others, as `openssl req -x509` makes it: RFC 5280 does not rule it out, webpki does.
#[derive(Debug)]
struct PinnedVerifier {
    pinned: Vec<CertificateDer<'static>>,
    chain: Arc<WebPkiServerVerifier>,
}

impl PinnedVerifier {
    fn read(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let pinned = pem::certificates(&read_given(path, MAX_CERTIFICATES_BYTES)?)?;
        let roots = Arc::new(pem::roots(&pinned)?);
        let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider))
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
