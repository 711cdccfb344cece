//! The TLS configuration of rustls, from the settings and the files that they name.

use std::sync::Arc;

use rustls::{
    CertificateError, OtherError, RootCertStore, ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, SupportedKxGroup, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::NoServerSessionStorage,
    version::{TLS12, TLS13},
};

use super::{
    client_certificates::ClientCertificates,
    tls_error::TlsError,
    tls_settings::{ClientAuth, Curve, Pem, TlsSettings},
};

/// The content of the settings of type [`Pem`].
#[derive(PartialEq, Eq)]
pub(super) struct TlsContent {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) client_ca: Option<Vec<u8>>,
}

pub(super) fn server_config(
    settings: &TlsSettings,
    content: &TlsContent,
) -> Result<ServerConfig, TlsError> {
    let certificate = |problem: String| TlsError::new(&settings.certificate, problem);
    let chain = certificates(&settings.certificate, &content.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&content.key)
        .map_err(|_| TlsError::new(&settings.key, "has no private key in PEM format"))?;
    let provider = Arc::new(provider(settings));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(settings))
        .map_err(|error| certificate(error.to_string()))?;
    let builder = match settings.client_auth {
        ClientAuth::None => builder.with_no_client_auth(),
        _ => builder.with_client_cert_verifier(Arc::new(ClientCertificates::new(
            settings,
            roots(settings, content)?,
            &provider,
        )?)),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::new(&settings.key, "does not belong to the certificate")
            }
            rustls::Error::General(_) => TlsError::new(
                &settings.key,
                "has a private key that is not supported: use RSA, ECDSA with P-256 or P-384, or Ed25519",
            ),
            rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(error)))
                if error.downcast_ref() == Some(&webpki::Error::UnsupportedCertVersion) =>
            {
                certificate(
                    "is not of X.509 version 3: create it with an extension, such as subjectAltName".to_owned(),
                )
            }
            error => certificate(format!("cannot be used: {error}")),
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session would not notice a client CA that was replaced. Scrapers keep their connections open.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certificates(pem: &Pem, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    found
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or_else(|| TlsError::new(pem, "has no certificate in PEM format"))
}

/// `None` without a client CA.
fn roots(settings: &TlsSettings, content: &TlsContent) -> Result<Option<RootCertStore>, TlsError> {
    let (Some(pem), Some(content)) = (&settings.client_ca, &content.client_ca) else {
        return Ok(None);
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, content)? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::new(pem, format!("cannot be used: {error}")))?;
    }
    Ok(Some(roots))
}

fn provider(settings: &TlsSettings) -> CryptoProvider {
    let mut provider = ring::default_provider();
    if let Some(names) = &settings.cipher_suites {
        provider.cipher_suites.retain(|suite| {
            let name = suite.suite().as_str().unwrap_or_default();
            suite.tls13().is_some() || names.contains(&name)
        });
    }
    if let Some(curves) = &settings.curves {
        let group = |curve: &Curve| -> &'static dyn SupportedKxGroup {
            match curve {
                Curve::X25519 => ring::kx_group::X25519,
                Curve::P256 => ring::kx_group::SECP256R1,
                Curve::P384 => ring::kx_group::SECP384R1,
            }
        };
        provider.kx_groups = curves.iter().map(group).collect();
    }
    provider
}

fn versions(settings: &TlsSettings) -> Vec<&'static SupportedProtocolVersion> {
    let has_tls12_suite = settings
        .cipher_suites
        .as_ref()
        .is_none_or(|suites| !suites.is_empty());
    let mut versions = Vec::new();
    versions.extend(settings.allows_tls13.then_some(&TLS13));
    versions.extend((settings.allows_tls12 && has_tls12_suite).then_some(&TLS12));
    versions
}
