//! HTTP clients with their certificates, and bounded reading of response bodies.

use std::{env, fs, path::Path};

use bytes::{Bytes, BytesMut};
use reqwest::{
    Certificate, Client, ClientBuilder, Identity, Response, StatusCode, Url, redirect::Policy,
};

use super::{error::root_cause, resolver::Resolver, url::Secrets};
use crate::base::text;

pub(crate) const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// The variables from which reqwest reads URLs of proxies.
const PROXY_VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// A client for a URL that does not follow redirects. Proxies are taken from the environment (`HTTPS_PROXY`,
/// `NO_PROXY`). The file of certificate authorities replaces those of the system; an error continues a sentence that
/// begins with its path.
pub(crate) fn client(
    url: &Url,
    ca_file: Option<&Path>,
    resolver: Resolver,
) -> Result<ClientBuilder, String> {
    let builder = Client::builder()
        .user_agent(USER_AGENT)
        .dns_resolver(resolver)
        .redirect(Policy::none())
        .referer(false)
        .pool_max_idle_per_host(1);
    Ok(match ca_file {
        Some(path) => builder.tls_certs_only(certificates(path)?),
        // Without TLS none is needed, and a container may have none.
        None if url.scheme() == "http" => builder.tls_certs_only([]),
        None => builder,
    })
}

/// A proxy may repeat its credentials in a response.
#[expect(
    clippy::disallowed_methods,
    reason = "reqwest reads the same variables when a client is made"
)]
pub(crate) fn add_proxy_secrets(secrets: &mut Secrets) {
    let proxies = PROXY_VARIABLES
        .iter()
        .filter_map(|name| env::var(name).ok());
    proxies.for_each(|proxy| secrets.add_proxy(&proxy));
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, String> {
    let found = Certificate::from_pem_bundle(&read_pem(path)?).map_err(|error| unusable(&error))?;
    if found.is_empty() {
        return Err("holds no certificate in PEM".to_owned());
    }
    Ok(found)
}

pub(crate) fn read_pem(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot be read: {error}"))
}

fn unusable(error: &reqwest::Error) -> String {
    format!("holds no usable PEM: {}", root_cause(error))
}

/// A client certificate with its private key, both PEM.
pub(crate) fn identity(certificate: &[u8], key: &[u8]) -> Result<Identity, String> {
    Identity::from_pem(&[key, certificate].join(&b'\n')).map_err(|error| unusable(&error))
}

/// The first `max` bytes of a body. Ends early if the connection breaks or the client's timeout expires: the status
/// is valid even if the body is incomplete.
pub(crate) async fn read_up_to(response: &mut Response, max: usize) -> Bytes {
    let mut read = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let left = max.saturating_sub(read.len());
        read.extend_from_slice(&chunk.slice(..chunk.len().min(left)));
        if chunk.len() >= left {
            break;
        }
    }
    read.freeze()
}

/// The status of an error response and the beginning of its body, for messages.
pub(crate) fn describe(
    status: StatusCode,
    body: &[u8],
    max_chars: usize,
    secrets: &Secrets,
) -> String {
    match excerpt(body, max_chars, secrets).as_str() {
        "" => format!("HTTP {status}"),
        text => format!("HTTP {status}: {text}"),
    }
}

/// The beginning of a body, which may be protobuf. A server may repeat the URL or a header of the request.
pub(crate) fn excerpt(body: &[u8], max_chars: usize, secrets: &Secrets) -> String {
    let text = String::from_utf8_lossy(body);
    text::excerpt(&secrets.mask(text.trim()), max_chars)
}
