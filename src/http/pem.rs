//! Certificates and private keys in PEM, of our port and of our clients. Errors continue a sentence that begins with the
//! path.

use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};

/// At least one.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found
        .ok()
        .filter(|found| !found.is_empty())
        .ok_or("has no certificate in PEM format")
}

pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    let text = String::from_utf8_lossy(pem);
    // PKCS #8, and the older form of OpenSSL.
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(
            "is encrypted with a passphrase, which nobody enters: decrypt it with openssl pkey -in KEY -out FILE",
        );
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| "has no private key in PEM format")
}

/// The problem if another certificate of the chain than the first is that of the key.
pub(crate) fn wrong_order(
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Option<&'static str> {
    let is_of_key = |certificate: &CertificateDer<'static>| {
        let key = provider.key_provider.load_private_key(key.clone_key());
        key.is_ok_and(|key| {
            CertifiedKey::new(vec![certificate.clone()], key)
                .keys_match()
                .is_ok()
        })
    };
    let position = chain.iter().position(is_of_key)?;
    (position > 0).then_some(
        "has its certificates in the wrong order: put that of the private key first, then those of its issuers",
    )
}
