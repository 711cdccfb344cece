//! HTTP clients with their certificates and proxies, and what their responses are.

use bytes::{Bytes, BytesMut};
use reqwest::{
    Client, ClientBuilder, Proxy, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, LOCATION},
    redirect::Policy,
};

use super::{
    error::root_cause,
    proxy,
    resolver::Resolver,
    tls::{TlsError, TlsFiles},
    url::{Secrets, redacted},
};
use crate::base::text;

pub(crate) const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// A client for a URL that does not follow redirects and speaks HTTP/1.1 or HTTP/2 alone, with the proxy for the URL that [`proxy::of`] returned.
///
/// # Errors
/// When a file cannot be used, or the system has no certificate authorities.
pub(crate) fn client(
    url: &Url,
    files: &TlsFiles,
    proxy: Option<&Url>,
    resolver: Resolver,
    with_http2: bool,
) -> Result<ClientBuilder, TlsError> {
    let builder = Client::builder()
        .user_agent(USER_AGENT)
        .dns_resolver(resolver)
        .redirect(Policy::none())
        .referer(false)
        .pool_max_idle_per_host(1)
        .no_proxy();
    let is_https = |url: &Url| url.scheme() == "https";
    // Without TLS no authorities are needed, and a container may have none.
    let has_tls = is_https(url) || proxy.is_some_and(is_https) || *files != TlsFiles::default();
    let builder = if has_tls {
        let mut config = files.config()?;
        if with_http2 {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        builder.tls_backend_preconfigured(config)
    } else {
        builder.tls_certs_only([])
    };
    let builder = if with_http2 {
        builder.http2_prior_knowledge()
    } else {
        builder.http1_only()
    };
    Ok(match proxy.cloned().map(Proxy::all) {
        Some(Ok(proxy)) => builder.proxy(proxy),
        Some(Err(error)) => return Err(TlsError::System(root_cause(&error))),
        None => builder,
    })
}

/// A proxy may repeat its credentials in a response.
pub(crate) fn add_proxy_secrets(secrets: &mut Secrets) {
    proxy::values().for_each(|proxy| secrets.add_proxy(&proxy));
}

/// Where a response redirects a request to, without secrets.
pub(crate) fn redirect(response: &Response) -> Option<String> {
    if !response.status().is_redirection() {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let target = response.url().join(location);
    Some(target.map_or_else(|_| redacted(location), |url| redacted(url.as_str())))
}

/// Whether the body of a response is a page for people, as of a proxy that asks for a login.
pub(crate) fn is_web_page(headers: &HeaderMap, body: &[u8]) -> bool {
    let content_type = headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let is_html = content_type.is_some_and(|value| value.to_ascii_lowercase().contains("html"));
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    text.starts_with('<') || is_html && !text.is_empty()
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
