//! Checks of the URLs that flags and environment variables name, and their form in messages. Pure.
//!
//! A URL may hold secrets: user info, a token in the path or in the query. Messages and log lines contain URLs as
//! [`shown`] returns them, and text of a server after [`Secrets::mask`].

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;
use reqwest::Url;

use crate::base::text::excerpt;

/// What takes the place of a secret, as in Go's `url.URL.Redacted`.
const MASK: &str = "xxxxx";
/// Characters of a URL in a message.
const MAX_CHARS: usize = 256;
/// A shorter text is no secret, and masking it would make messages unreadable.
const MIN_SECRET: usize = 4;
/// Shorter segments of a path are words such as `otlp`.
const MIN_SECRET_SEGMENT: usize = 8;

/// A URL whose scheme is http or https; such a URL always has a host. The error continues a sentence that begins with the
/// URL.
pub(crate) fn http(text: &str) -> Result<Url, String> {
    let url: Url = text
        .parse()
        .map_err(|error| format!("is not a URL ({error})"))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err("is neither http nor https".to_owned()),
    }
}

/// What to do about a text that is not the base URL of a server.
pub(crate) struct BaseRemedies {
    pub(crate) form: &'static str,
    pub(crate) credentials: &'static str,
    pub(crate) query: &'static str,
}

/// A URL that consists of scheme, host, port and path only. The error is one line, without secrets.
pub(crate) fn base(text: &str, remedies: &BaseRemedies) -> Result<Url, String> {
    let error = |why: &str, remedy: &str| format!("{:?} {why}: {remedy}", shown(text));
    let url = http(text).map_err(|why| error(&why, remedies.form))?;
    if !url.username().is_empty() || url.password().is_some() {
        Err(error("has a user name or a password", remedies.credentials))
    } else if url.query().is_some() || url.fragment().is_some() {
        Err(error("has a query or a fragment", remedies.query))
    } else {
        Ok(url)
    }
}

/// The URL of `path` under a base, which may have a path of its own.
pub(crate) fn under(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

/// A URL, or a text in the place of one, for messages: scheme, host and port, since all else may be a secret.
pub(crate) fn shown(text: &str) -> String {
    let shown = match text.parse::<Url>() {
        Ok(url) if url.has_host() => {
            let port = url.port().map(|port| format!(":{port}"));
            let (host, port) = (url.host_str().unwrap_or_default(), port.unwrap_or_default());
            format!("{}://{host}{port}", url.scheme())
        }
        _ if is_host_and_port(text) => text.to_owned(),
        _ => MASK.to_owned(),
    };
    excerpt(&shown, MAX_CHARS)
}

/// Without the rules of a URL, any other character may be that of a password.
fn is_host_and_port(text: &str) -> bool {
    let schemes = ["http://", "https://"].iter();
    let mut rest = schemes.filter_map(|scheme| text.strip_prefix(scheme));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    rest.next().unwrap_or(text).chars().all(is_plain)
}

/// The secrets of a URL and of a request, to be masked in what a server answers.
pub(crate) struct Secrets(Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Secrets {
    pub(crate) fn of(url: &Url) -> Self {
        let mut secrets = Self(Vec::new());
        let query = url.query().unwrap_or_default();
        let pairs = query.split('&');
        let values = pairs.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
        let segments = url.path().split('/');
        segments
            .filter(|segment| segment.len() >= MIN_SECRET_SEGMENT)
            .chain(values)
            .chain([query, url.username()])
            .for_each(|secret| secrets.add(secret));
        if !url.username().is_empty() || url.password().is_some() {
            // The header contains them without percent-encoding.
            let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
            let password = url.password().unwrap_or_default();
            let user_info = format!("{}:{}", decoded(url.username()), decoded(password));
            secrets.add_header(&BASE64_STANDARD.encode(user_info));
            secrets.add(password);
        }
        secrets
    }

    /// The value of a header, and the credentials after a scheme such as `Bearer`, also those of basic authentication
    /// (RFC 7617) as they are decoded.
    pub(crate) fn add_header(&mut self, value: &str) {
        self.add(value);
        let credentials = value.rsplit(' ').next().unwrap_or_default();
        self.add(credentials);
        let basic = BASE64_STANDARD.decode(credentials).ok();
        let basic = basic.and_then(|basic| String::from_utf8(basic).ok());
        if let Some((_, password)) = basic.as_deref().and_then(|basic| basic.split_once(':')) {
            self.add(password);
        }
    }

    /// Adds a secret as it is, and without its percent-encoding.
    fn add(&mut self, secret: &str) {
        let decoded = percent_decode_str(secret).decode_utf8_lossy();
        for secret in [secret, &*decoded] {
            if secret.len() >= MIN_SECRET && !self.0.iter().any(|known| known == secret) {
                self.0.push(secret.to_owned());
            }
        }
        // A secret that contains another one is masked first.
        self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    }

    pub(crate) fn mask(&self, text: &str) -> String {
        let mask = |text: String, secret: &String| text.replace(secret.as_str(), MASK);
        self.0.iter().fold(text.to_owned(), mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_have_scheme_host_port_and_path_only() {
        let remedies = BaseRemedies {
            form: "form",
            credentials: "credentials",
            query: "query",
        };
        for text in ["http://h", "https://h:1/a/", "http://[::1]:80"] {
            assert!(base(text, &remedies).is_ok(), "{text}");
        }
        for (text, problem) in [
            ("h", "is not a URL"),
            ("http://", "is not a URL"),
            ("h:9093", "neither http nor https"),
            ("ftp://h", "neither http nor https"),
            ("h:9093", "\"h:9093\" is neither http nor https: form"),
            ("http://user@h", "a user name or a password: credentials"),
            ("http://:password@h", "a user name"),
            ("http://h?x=1", "a query or a fragment: query"),
            ("http://h#x", "a query"),
        ] {
            let error = base(text, &remedies).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn only_scheme_host_and_port_are_shown() {
        for (text, expected) in [
            ("http://am:9093", "http://am:9093"),
            ("https://am:443/", "https://am"),
            ("http://[::1]:80/otlp/v1/traces", "http://[::1]"),
            ("https://me:secret@h/x", "https://h"),
            ("https://secret@h", "https://h"),
            ("https://h:1/s3cr3t/v1?key=secret#secret", "https://h:1"),
            ("ftp://me:secret@h", "ftp://h"),
            ("nowhere", "nowhere"),
            ("h:9093", "h:9093"),
            ("http://", "http://"),
            ("http://169.254.169.254:8O", "http://169.254.169.254:8O"),
            ("me:secret@h:9093", "xxxxx"),
            ("http//me:secret@h", "xxxxx"),
            ("http://me:secret@h:port", "xxxxx"),
            ("http://me:sec#secret@h", "xxxxx"),
            ("http://me:sec/ret?a=b@h", "xxxxx"),
            ("http://me:sec\nret@h:port", "xxxxx"),
            ("http://me:secret%40h:port", "xxxxx"),
            ("http://me:secret\u{ff20}h", "xxxxx"),
            ("me:http://secret@h", "xxxxx"),
            ("http:///secret@", "xxxxx"),
            ("http:// /?key=secret", "xxxxx"),
            ("http://h:port/s3cr3t/v1", "xxxxx"),
            ("h.example/s3cr3t/v1/traces", "xxxxx"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn basic_credentials_are_masked_as_they_are_in_the_header() {
        let encoded = BASE64_STANDARD.encode("me:p@ss");
        let echo = format!("authorization: Basic {encoded}, decoded me:p@ss");
        let mut of_header = Secrets::of(&"http://h".parse().unwrap());
        of_header.add_header(&format!("Basic {encoded}"));
        let of_url = Secrets::of(&"http://me:p%40ss@h".parse().unwrap());
        for secrets in [of_header, of_url] {
            let masked = secrets.mask(&echo);
            assert!(
                !masked.contains(&encoded) && !masked.contains("p@ss"),
                "{masked}"
            );
        }
    }

    #[test]
    fn secrets_are_masked_in_the_text_of_a_server() {
        let url = "http://me:p%40ss@h/otlp/s3cr3t-path/v1/traces?key=secret&x=a";
        let mut secrets = Secrets::of(&url.parse().unwrap());
        secrets.add_header("Bearer token");
        let said = "POST /otlp/s3cr3t-path/v1/traces?key=secret&x=a by me:p@ss, p%40ss, Bearer token: no secret token";
        assert_eq!(
            secrets.mask(said),
            "POST /otlp/xxxxx/v1/traces?xxxxx by me:xxxxx, xxxxx, xxxxx: no xxxxx xxxxx"
        );
    }
}
