//! The TLS configuration of rustls, from the settings and the files that they name.

use std::sync::Arc;

use rustls::{ServerConfig, server::NoServerSessionStorage};

use super::{
    client_certificates::ClientCertificates,
    tls_settings::{ClientAuth, TlsSettings},
};
use crate::http::pem::{self, PairError};

/// Certificate, key and client CA, which is empty if there is none.
pub(super) type TlsContent = [Vec<u8>; 3];

pub(super) fn server_config(
    settings: &TlsSettings,
    [certificate, key, client_ca]: &TlsContent,
) -> Result<ServerConfig, String> {
    let provider = Arc::new(settings.provider.clone());
    let pair = pem::certified_key(certificate, key, &provider).map_err(|error| match error {
        PairError::Certificate(problem) => settings.certificate.error(&problem),
        PairError::Key(problem) => settings.key.error(problem),
    })?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&settings.versions)
        .map_err(|error| {
            settings
                .certificate
                .error(&format!("cannot be used: {error}"))
        })?;
    let builder = if settings.client_auth == ClientAuth::NoClientCert {
        builder.with_no_client_auth()
    } else {
        let roots = settings.client_ca.as_ref().map(|pem| {
            let roots = pem::certificates(client_ca).and_then(|found| pem::roots(&found));
            roots.map_err(|problem| pem.error(&problem))
        });
        let verifier = ClientCertificates::new(settings, roots.transpose()?, &provider)?;
        builder.with_client_cert_verifier(Arc::new(verifier))
    };
    let mut config = builder.with_cert_resolver(pair);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A resumed session would not notice a client CA that was replaced. Scrapers keep their connections open.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
