//! What the HTTP clients have in common: setup, credentials, what errors and responses say, `Retry-After`; TLS, proxies, URLs
//! and name resolution in modules of their own.

pub(crate) mod proxy;
pub(crate) mod resolver;
pub(crate) mod tls;
pub(crate) mod url;

use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::{Bytes, BytesMut};
use hyper_util::client::proxy::matcher::Intercept;
use reqwest::{
    Client, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER},
    redirect::Policy,
};

use self::{
    resolver::Resolver,
    tls::{TlsFiles, is_authority},
    url::{Secrets, shown},
};
use crate::base::{
    file::{MAX_SECRET_BYTES, read_given},
    text,
    time::Timestamp,
};

pub(crate) const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// Frames of the server cost CPU time on an idle connection of HTTP/2 too.
const MAX_HTTP2_IDLE: Duration = Duration::from_secs(5);
/// Bytes that are read of a response.
pub(crate) const MAX_BODY: usize = 64 << 10;
/// Characters of it that a message has.
pub(crate) const MAX_MESSAGE: usize = 300;

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

/// Without such a header, a request is not what it should be.
pub(crate) fn is_own_header(name: &HeaderName) -> bool {
    let own = "connection content-encoding content-length content-type host te transfer-encoding";
    own.split(' ').any(|own| name == own) || name.as_str().starts_with("grpc-")
}

/// A client that follows no redirect.
///
/// # Errors
/// When a file cannot be used, or the system has no certificate authorities: one line that names the setting.
pub(crate) fn build_client(options: ClientOptions<'_>) -> Result<Client, String> {
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
        let builder = builder.http2_prior_knowledge();
        builder.pool_idle_timeout(MAX_HTTP2_IDLE)
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

/// Whether the body of a response is a page for people, as of a proxy that asks for a login.
pub(crate) fn is_web_page(headers: &HeaderMap, body: &[u8]) -> bool {
    let content_type = headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let is_html = content_type.is_some_and(|value| value.to_ascii_lowercase().contains("html"));
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    text.starts_with('<') || is_html && !text.is_empty()
}

/// A response with the first [`MAX_BODY`] bytes of its body. Ends early if the connection breaks or the client's timeout
/// expires: the status is valid even if the body is incomplete.
pub(crate) async fn read(mut response: Response) -> hyper::Response<Bytes> {
    let mut body = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let left = MAX_BODY.saturating_sub(body.len());
        body.extend_from_slice(&chunk.slice(..chunk.len().min(left)));
        if chunk.len() >= left {
            break;
        }
    }
    hyper::Response::from(response).map(|_| body.freeze())
}

/// Status and `text` of a response to a request for `url`, or where it redirects to.
pub(crate) fn describe<T>(
    response: &hyper::Response<T>,
    text: &[u8],
    url: &Url,
    secrets: &Secrets,
) -> String {
    let status = response.status();
    let location = response.headers().get(LOCATION);
    if let Some(location) = location.filter(|_| status.is_redirection()) {
        let location = String::from_utf8_lossy(location.as_bytes());
        let target = url.join(&location);
        let target = target.as_ref().map_or(&*location, Url::as_str);
        return format!("HTTP {status} to {}", shown(target));
    }
    match excerpt(text, secrets).as_str() {
        "" => format!("HTTP {status}"),
        text => format!("HTTP {status}: {text}"),
    }
}

/// The beginning of a body, which may be protobuf. A server may repeat the URL or a header of the request.
pub(crate) fn excerpt(body: &[u8], secrets: &Secrets) -> String {
    let text = String::from_utf8_lossy(body);
    text::excerpt(&secrets.mask(text.trim()), MAX_MESSAGE)
}

/// An error and its causes, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&inner| {
        // The source of an I/O error is the source of the error that it wraps, which would be skipped.
        match inner
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(wrapped) => Some(wrapped),
            None => inner.source(),
        }
    })
}

pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let Some(cause) = causes(error).last() else {
        return error.to_string();
    };
    if cause.downcast_ref().is_some_and(is_authority) {
        return "the certificate of the server is self-signed: give its own file as that of the certificate authorities"
            .to_owned();
    }
    if let Some(rustls::Error::InvalidMessage(_)) = cause.downcast_ref() {
        return format!("the port does not speak TLS, which https needs ({cause}): is it http?");
    }
    let text = cause.to_string();
    // Its type is private, and it has no status.
    if text.starts_with("tunnel error: ") {
        return format!(
            "the proxy does not connect to the server ({text}): check its rules and password, or set NO_PROXY"
        );
    }
    text
}

pub(crate) fn is_tls(error: &(dyn Error + 'static)) -> bool {
    error.is::<rustls::Error>()
}

/// The delay that `Retry-After` asks for, in seconds or as a date (RFC 9110, section 10.2.3). The caller limits it.
///
/// Zero or past values are ignored, a date may be past because the clocks differ: the caller's own backoff applies.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let seconds = value.parse().ok().map(Duration::from_secs);
    let delay = seconds.or_else(|| Some(Timestamp::parse(value)?.saturating_since(now)))?;
    (!delay.is_zero()).then_some(delay)
}

/// A file with credentials. It is read for each request, so that a secret can be rotated without a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// `user:password`.
    Basic(PathBuf),
    Bearer(PathBuf),
}

impl Credentials {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Basic(path) | Self::Bearer(path) => path,
        }
    }

    /// The header `Authorization`. An error begins with the path, and does not contain the content of the file.
    pub(crate) fn header(&self) -> Result<HeaderValue, String> {
        let header = self.read();
        header.map_err(|why| format!("{} {why}", self.path().display()))
    }

    fn read(&self) -> Result<HeaderValue, String> {
        let content = read_given(self.path(), MAX_SECRET_BYTES)?;
        let text = String::from_utf8(content);
        let text = text.map_err(|_| "is not UTF-8 text: save it as UTF-8")?;
        let text = text.trim();
        let header = match self {
            Self::Basic(_) if !text.contains(':') => {
                return Err("does not hold USER:PASSWORD in one line".to_owned());
            }
            Self::Basic(_) => format!("Basic {}", BASE64_STANDARD.encode(text)),
            Self::Bearer(_) if text.is_empty() => {
                return Err("is empty: write the token into it".to_owned());
            }
            Self::Bearer(_) => format!("Bearer {text}"),
        };
        let mut header =
            HeaderValue::try_from(header).map_err(|_| "holds more than a token".to_owned())?;
        header.set_sensitive(true);
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn root_cause_looks_into_io_errors() {
        let tls = rustls::Error::HandshakeNotComplete;
        let nested = io::Error::other(io::Error::other(tls.clone()));
        assert_eq!(root_cause(&nested), tls.to_string());
        assert!(causes(&nested).any(is_tls));
        assert_eq!(root_cause(&tls), tls.to_string());
    }

    fn now() -> Timestamp {
        Timestamp::parse("Tue, 17 Nov 2026 09:15:42 GMT").unwrap()
    }

    fn parse(value: &str) -> Option<Duration> {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        retry_after(&HeaderMap::from_iter([(RETRY_AFTER, value)]), now())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(parse("7"), Some(Duration::from_secs(7)));
        assert_eq!(parse(" 86400 "), Some(Duration::from_hours(24)));
        let date = "Tue, 17 Nov 2026 09:16:00 GMT";
        assert_eq!(parse(date), Some(Duration::from_secs(18)));
        assert_eq!(retry_after(&HeaderMap::new(), now()), None);
    }

    #[test]
    fn zero_past_and_invalid_retry_after_is_ignored() {
        for value in [
            "0",
            "Tue, 17 Nov 2026 09:15:42 GMT",
            "Tue, 17 Nov 2026 09:00:00 GMT",
            "",
            "soon",
            "-1",
            "1.5",
            "7, 8",
            "99999999999999999999999",
            "é",
        ] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_value_is_read_without_panic_and_never_as_zero(value in "[ -~]{0,40}") {
            prop_assert_ne!(parse(&value), Some(Duration::ZERO));
        }

        #[test]
        fn any_number_of_seconds_above_zero_is_read(seconds in 1..=u64::MAX) {
            prop_assert_eq!(parse(&seconds.to_string()), Some(Duration::from_secs(seconds)));
        }
    }
}
