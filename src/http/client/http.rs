//! HTTP clients with their certificates and proxies, and what their responses are.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper_util::client::proxy::matcher::Intercept;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, LOCATION},
    redirect::Policy,
};

use super::{
    error::root_cause,
    proxy,
    resolver::Resolver,
    tls::TlsFiles,
    url::{Secrets, shown},
};
use crate::base::text;

pub(crate) const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// What a client connects to, and how.
pub(crate) struct ClientOptions<'a> {
    pub(crate) url: &'a Url,
    pub(crate) files: &'a TlsFiles,
    /// What names the files of the authorities, the certificate and its key, such as `--ca-file`.
    pub(crate) file_settings: [&'static str; 3],
    /// As [`proxy::of`] returned it; `None` also where no proxy is to be used.
    pub(crate) proxy: Option<Intercept>,
    pub(crate) resolver: Resolver,
    /// Else HTTP/1.1 alone.
    pub(crate) is_http2: bool,
    pub(crate) connect_timeout: Duration,
}

/// A client that follows no redirect.
///
/// # Errors
/// When a file cannot be used, or the system has no certificate authorities: one line that names the setting.
pub(crate) fn client(options: ClientOptions<'_>) -> Result<Client, String> {
    let ClientOptions { url, proxy, .. } = options;
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .dns_resolver(options.resolver)
        .redirect(Policy::none())
        .referer(false)
        .pool_max_idle_per_host(1)
        .connect_timeout(options.connect_timeout);
    if proxy.is_none() {
        builder = builder.no_proxy();
    }
    let proxy_scheme = proxy.as_ref().and_then(|proxy| proxy.uri().scheme_str());
    let is_https = [Some(url.scheme()), proxy_scheme].contains(&Some("https"));
    let has_files = *options.files != TlsFiles::default();
    // Without TLS no authorities are needed, and a container may have none.
    builder = if is_https || has_files {
        let protocol: &[u8] = if options.is_http2 { b"h2" } else { b"http/1.1" };
        let mut config = options.files.config(url, options.file_settings)?;
        config.alpn_protocols = vec![protocol.to_vec()];
        builder.tls_backend_preconfigured(config)
    } else {
        builder.tls_certs_only([])
    };
    builder = if options.is_http2 {
        builder.http2_prior_knowledge()
    } else {
        builder.http1_only()
    };
    builder.build().map_err(|error| root_cause(&error))
}

/// The secrets of a request, which a server may repeat in its response, and those of a proxy.
pub(crate) fn secrets(url: &Url, headers: &HeaderMap) -> Secrets {
    let mut secrets = Secrets::of(url);
    let proxy = proxy::of(url);
    let of_proxy = proxy.as_ref().and_then(Intercept::basic_auth);
    for value in headers.values().chain(of_proxy) {
        secrets.add_header(&String::from_utf8_lossy(value.as_bytes()));
    }
    secrets
}

/// Where a response redirects a request for this URL to, without secrets.
pub(crate) fn redirect(url: &Url, status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let location = headers.get(LOCATION).filter(|_| status.is_redirection())?;
    let location = String::from_utf8_lossy(location.as_bytes());
    let target = url.join(&location);
    Some(shown(target.as_ref().map_or(&*location, Url::as_str)))
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
