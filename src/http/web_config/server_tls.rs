//! The TLS configuration of rustls, from the settings and the files that they name. Verifies client certificates: their
//! chain, where the settings ask for it, and their names.

use std::{net::IpAddr, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{
        NoServerSessionStorage, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use webpki::EndEntityCert;

use super::web_settings::{ClientAuth, TlsContent, TlsSettings};
use crate::http::pem::{self, PairError};

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
        .map_err(|error| format!("tls_server_config.cipher_suites: {error}"))?;
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

/// In each mode, the client proves that it has the key of its certificate.
#[derive(Debug)]
struct ClientCertificates {
    client_auth: ClientAuth,
    chain: Option<Arc<dyn ClientCertVerifier>>,
    /// `None` for any name.
    allowed_names: Option<Vec<String>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertificates {
    fn new(
        settings: &TlsSettings,
        roots: Option<RootCertStore>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let verifier = |roots| -> Result<Arc<dyn ClientCertVerifier>, String> {
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| {
                    format!("tls_server_config: the client CA cannot be used: {error}")
                })
        };
        Ok(Self {
            client_auth: settings.client_auth,
            chain: roots.map(verifier).transpose()?,
            allowed_names: settings.allowed_names.clone(),
            algorithms: provider.signature_verification_algorithms,
        })
    }

    fn is_chain_verified(&self) -> bool {
        matches!(
            self.client_auth,
            ClientAuth::VerifyClientCertIfGiven | ClientAuth::RequireAndVerifyClientCert
        )
    }
}

impl ClientCertVerifier for ClientCertificates {
    fn client_auth_mandatory(&self) -> bool {
        matches!(
            self.client_auth,
            ClientAuth::RequireAnyClientCert | ClientAuth::RequireAndVerifyClientCert
        )
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        let chain = self.chain.as_ref().filter(|_| self.is_chain_verified());
        chain.map_or(&[], |chain| chain.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.is_chain_verified() {
            let chain = self.chain.as_ref().ok_or(CertificateError::UnknownIssuer)?;
            chain.verify_client_cert(end_entity, intermediates, now)?;
        }
        match &self.allowed_names {
            Some(allowed) if !has_name(end_entity, allowed)? => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Names are compared as text, so that a wildcard stands for itself.
fn has_name(certificate: &CertificateDer<'_>, allowed: &[String]) -> Result<bool, Error> {
    let certificate =
        EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let is_allowed = |name: &str| allowed.iter().any(|allowed| allowed == name);
    let has_address = |name: &String| {
        name.parse::<IpAddr>().is_ok_and(|address| {
            let name = ServerName::IpAddress(address.into());
            certificate.verify_is_valid_for_subject_name(&name).is_ok()
        })
    };
    Ok(certificate.valid_dns_names().any(is_allowed)
        || certificate.valid_uri_names().any(is_allowed)
        || allowed.iter().any(has_address))
}
