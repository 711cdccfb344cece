//! Verifies client certificates: their chain, where the settings ask for it, and their names.

use std::{net::IpAddr, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use webpki::EndEntityCert;

use super::{
    tls_error::TlsError,
    tls_settings::{ClientAuth, TlsSettings},
};

/// In each mode, the client proves that it has the key of its certificate.
#[derive(Debug)]
pub(super) struct ClientCertificates {
    is_mandatory: bool,
    chain: Chain,
    /// `None` for any name.
    allowed_names: Option<Vec<String>>,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Chain {
    /// Any certificate is accepted.
    Unverified,
    /// There is no client CA: no certificate is accepted.
    NoRoot,
    Verified(Arc<dyn ClientCertVerifier>),
}

impl ClientCertificates {
    pub(super) fn new(
        settings: &TlsSettings,
        roots: Option<RootCertStore>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let is_verified = match settings.client_auth {
            ClientAuth::None | ClientAuth::Request | ClientAuth::RequireAny => false,
            ClientAuth::VerifyIfGiven | ClientAuth::RequireAndVerify => true,
        };
        let chain = match roots {
            _ if !is_verified => Chain::Unverified,
            None => Chain::NoRoot,
            Some(roots) => {
                let builder = WebPkiClientVerifier::builder_with_provider(
                    Arc::new(roots),
                    Arc::clone(provider),
                );
                let verifier = builder.build().map_err(|error| {
                    let pem = settings.client_ca.as_ref().unwrap_or(&settings.certificate);
                    TlsError::new(pem, format!("cannot be used: {error}"))
                })?;
                Chain::Verified(verifier)
            }
        };
        Ok(Self {
            is_mandatory: matches!(
                settings.client_auth,
                ClientAuth::RequireAny | ClientAuth::RequireAndVerify
            ),
            chain,
            allowed_names: settings.allowed_names.clone(),
            algorithms: provider.signature_verification_algorithms,
        })
    }
}

impl ClientCertVerifier for ClientCertificates {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        match &self.chain {
            Chain::Verified(verifier) => verifier.root_hint_subjects(),
            Chain::Unverified | Chain::NoRoot => &[],
        }
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match &self.chain {
            Chain::Unverified => {}
            Chain::NoRoot => return Err(CertificateError::UnknownIssuer.into()),
            Chain::Verified(verifier) => {
                verifier.verify_client_cert(end_entity, intermediates, now)?;
            }
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
