//! Certificates of one authority.

use std::{fs, net::Ipv4Addr, path::Path};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// Addresses of servers with a certificate, besides that of all others.
pub(crate) const HTTPS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
pub(crate) const GRPC_TLS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 5);

/// Writes the certificates of an authority, of a server and of its clients.
pub(crate) fn certificates(folder: &Path) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    for (file, names) in [
        (
            "server",
            [Ipv4Addr::LOCALHOST, HTTPS, GRPC_TLS]
                .map(|ip| ip.to_string())
                .to_vec(),
        ),
        ("client", vec!["exporter".to_owned()]),
    ] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        // With the name of the authority, BoringSSL takes it for a self-signed one.
        params.distinguished_name.push(DnType::CommonName, file);
        let certificate = params.signed_by(&key, &authority).unwrap();
        fs::write(folder.join(format!("{file}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{file}-key.pem")), key.serialize_pem()).unwrap();
    }
}
