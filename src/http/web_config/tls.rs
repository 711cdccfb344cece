//! The TLS configuration of rustls, from the settings and the files that they name.

use std::sync::Arc;

use rustls::{
    CertificateError, OtherError, RootCertStore, ServerConfig, pki_types::CertificateDer,
    server::NoServerSessionStorage,
};

use super::{
    client_certificates::ClientCertificates,
    tls_settings::{ClientAuth, Pem, TlsSettings},
};
use crate::http::pem;

/// Certificate, key and client CA, which is empty if there is none.
pub(super) type TlsContent = [Vec<u8>; 3];

pub(super) fn server_config(
    settings: &TlsSettings,
    [certificate, key, client_ca]: &TlsContent,
) -> Result<ServerConfig, String> {
    let unusable = |problem: &dyn ToString| {
        let problem = format!("cannot be used: {}", problem.to_string());
        settings.certificate.error(&problem)
    };
    let chain = certificates(&settings.certificate, certificate)?;
    let key = pem::private_key(key).map_err(|problem| settings.key.error(problem))?;
    let provider = Arc::new(settings.provider.clone());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&settings.versions)
        .map_err(|error| unusable(&error))?;
    let builder = if settings.client_auth == ClientAuth::NoClientCert {
        builder.with_no_client_auth()
    } else {
        let roots = settings.client_ca.as_ref().map(|pem| roots(pem, client_ca));
        let verifier = ClientCertificates::new(settings, roots.transpose()?, &provider)?;
        builder.with_client_cert_verifier(Arc::new(verifier))
    };
    if let Some(problem) = pem::wrong_order(&chain, &key, &provider) {
        return Err(settings.certificate.error(problem));
    }
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                settings.key.error("does not belong to the certificate")
            }
            rustls::Error::General(_) => settings.key.error(
                "has a private key that is not supported: use RSA, ECDSA with P-256 or P-384, or Ed25519",
            ),
            rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(error)))
                if error.downcast_ref() == Some(&webpki::Error::UnsupportedCertVersion) =>
            {
                settings.certificate.error(
                    "is not of X.509 version 3: create it with an extension, such as subjectAltName",
                )
            }
            error => unusable(&error),
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session would not notice a client CA that was replaced. Scrapers keep their connections open.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certificates(pem: &Pem, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    pem::certificates(content).map_err(|problem| pem.error(problem))
}

fn roots(pem: &Pem, content: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, content)? {
        roots
            .add(certificate)
            .map_err(|error| pem.error(&format!("cannot be used: {error}")))?;
    }
    Ok(roots)
}
