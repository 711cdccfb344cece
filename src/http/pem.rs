//! Certificates and private keys in PEM, of our port and of our clients. Errors continue a sentence that begins with the
//! path.

use std::sync::Arc;

use rustls::{
    CertificateError, Error, InconsistentKeys, OtherError, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::{CertifiedKey, SingleCertAndKey},
};

/// At least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or_else(|| "has no certificate in PEM format".to_owned())
}

pub(crate) fn roots(certificates: &[CertificateDer<'static>]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots
            .add(certificate.clone())
            .map_err(|error| format!("cannot be used: {error}"))?;
    }
    Ok(roots)
}

pub(crate) enum PairError {
    Certificate(String),
    Key(&'static str),
}

pub(crate) fn certified_key(
    chain: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<SingleCertAndKey>, PairError> {
    let chain = certificates(chain).map_err(PairError::Certificate)?;
    let key = private_key(key).map_err(PairError::Key)?;
    let key = provider.key_provider.load_private_key(key).map_err(|_| {
        PairError::Key("has a private key that is not supported: use RSA, ECDSA with P-256 or P-384, or Ed25519")
    })?;
    let is_of_key = |certificate: &CertificateDer<'static>| {
        let pair = CertifiedKey::new(vec![certificate.clone()], Arc::clone(&key));
        pair.keys_match().is_ok()
    };
    let is_in_wrong_order = chain.iter().skip(1).any(is_of_key);
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
            Ok(Arc::new(SingleCertAndKey::from(pair)))
        }
        Err(_) if is_in_wrong_order => Err(PairError::Certificate(
            "has its certificates in the wrong order: put that of the private key first, then those of its issuers"
                .to_owned(),
        )),
        Err(Error::InconsistentKeys(_)) => Err(PairError::Key("does not belong to the certificate")),
        Err(Error::InvalidCertificate(CertificateError::Other(OtherError(error))))
            if error.downcast_ref() == Some(&webpki::Error::UnsupportedCertVersion) =>
        {
            Err(PairError::Certificate(
                "is not of X.509 version 3: create it with an extension, such as subjectAltName".to_owned(),
            ))
        }
        Err(error) => Err(PairError::Certificate(format!("cannot be used: {error}"))),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    let text = String::from_utf8_lossy(pem);
    // PKCS #8, and the older form of OpenSSL.
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(
            "is encrypted with a passphrase, which nobody enters: decrypt it with openssl pkey -in KEY -out FILE",
        );
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| "has no private key in PEM format")
}
