//! A client that sends one request on each connection, with or without TLS.

use std::{io, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::{DEADLINE, Pki, install_cryptography};

#[derive(Clone)]
pub(super) struct Client {
    address: String,
    tls: Option<TlsConnector>,
}

/// How a client speaks TLS.
#[derive(Default)]
pub(super) struct Tls<'a> {
    /// `None` for TLS 1.2 and 1.3.
    pub(super) version: Option<&'static SupportedProtocolVersion>,
    /// The name of a certificate of [`Pki::write_certificate`].
    pub(super) certificate: Option<(&'a Pki, &'a str)>,
}

#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    /// In lower case.
    pub(super) head: String,
    pub(super) body: String,
}

impl Client {
    pub(super) fn plain(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            tls: None,
        }
    }

    pub(super) fn tls(address: &str, pki: &Pki, tls: &Tls<'_>) -> Self {
        install_cryptography();
        let mut roots = RootCertStore::empty();
        let authority = pki.authority();
        roots
            .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
            .unwrap();
        let builder = match tls.version {
            None => ClientConfig::builder(),
            Some(version) => ClientConfig::builder_with_protocol_versions(&[version]),
        };
        let builder = builder.with_root_certificates(roots);
        let config = match tls.certificate {
            None => builder.with_no_client_auth(),
            Some((pki, name)) => {
                let file = |end: &str| std::fs::read(pki.path(&format!("{name}{end}"))).unwrap();
                let certificate = CertificateDer::from_pem_slice(&file(".pem")).unwrap();
                let key = PrivateKeyDer::from_pem_slice(&file("-key.pem")).unwrap();
                builder
                    .with_client_auth_cert(vec![certificate], key)
                    .unwrap()
            }
        };
        Self {
            address: address.to_owned(),
            tls: Some(TlsConnector::from(Arc::new(config))),
        }
    }

    /// A connection after its handshake.
    pub(super) async fn connect_tls(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(&self.address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let tls = self.tls.as_ref().unwrap();
        timeout(DEADLINE, tls.connect(name, stream)).await?
    }

    pub(super) async fn get(&self, path: &str, headers: &[&str]) -> io::Result<Response> {
        if self.tls.is_some() {
            request(self.connect_tls().await?, path, headers).await
        } else {
            request(TcpStream::connect(&self.address).await?, path, headers).await
        }
    }

    /// The status of a response that must come.
    pub(super) async fn status(&self, path: &str, headers: &[&str]) -> u16 {
        self.get(path, headers).await.unwrap().status
    }
}

/// Sends a request on a new connection and reads the response.
pub(super) async fn request(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    headers: &[&str],
) -> io::Result<Response> {
    let lines: Vec<_> = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let lines = lines.concat();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut response)).await??;
    let incomplete = || io::Error::new(io::ErrorKind::UnexpectedEof, "no complete response");
    let (head, body) = response.split_once("\r\n\r\n").ok_or_else(incomplete)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Ok(Response {
        status: status.ok_or_else(incomplete)?,
        head: head.to_lowercase(),
        body: body.to_owned(),
    })
}
