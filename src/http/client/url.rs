//! Checks of the URLs that flags and environment variables name, and their form in messages. Pure.
//!
//! A URL may hold secrets: user info, a token in the path or in the query. Messages and log lines contain URLs as
//! [`redacted`] returns them, and text of a server after [`Secrets::mask`].

use std::{fmt, str::FromStr};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;
use reqwest::Url;

use crate::base::text::excerpt;

/// What takes the place of a secret, as in Go's `url.URL.Redacted`.
const MASK: &str = "xxxxx";
/// A shorter segment of a path is no secret: it could be guessed.
const MIN_SECRET_SEGMENT: usize = 8;
/// Longer words, and numbers, are random.
const MAX_WORD: usize = 20;
const MAX_NUMBER: usize = 8;
/// Characters of a URL in a message.
const MAX_CHARS: usize = 256;
/// A shorter text is no secret, and masking it would make messages unreadable.
const MIN_SECRET: usize = 4;

/// Why a URL cannot be used. The text continues a sentence that begins with the URL.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("is not a URL ({0})")]
    Syntax(<Url as FromStr>::Err),
    #[error("is neither http nor https")]
    Scheme,
    #[error("has a user name or a password")]
    Credentials,
    #[error("has a query or a fragment")]
    Query,
}

/// A URL whose scheme is http or https; such a URL always has a host.
pub(crate) fn http(text: &str) -> Result<Url, UrlError> {
    let url: Url = text.parse().map_err(UrlError::Syntax)?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        _ => Err(UrlError::Scheme),
    }
}

/// A URL that consists of scheme, host, port and path only.
pub(crate) fn base(text: &str) -> Result<Url, UrlError> {
    let url = http(text)?;
    if !url.username().is_empty() || url.password().is_some() {
        Err(UrlError::Credentials)
    } else if url.query().is_some() || url.fragment().is_some() {
        Err(UrlError::Query)
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

/// A URL, or a text in the place of one, for messages: one line with scheme, host, port and what is public of the path.
pub(crate) fn redacted(text: &str) -> String {
    let redacted = match text.parse::<Url>() {
        Ok(url) if url.has_host() => redacted_url(&url),
        _ => redacted_text(text),
    };
    excerpt(&redacted, MAX_CHARS)
}

fn redacted_url(url: &Url) -> String {
    let has_user_info = !url.username().is_empty() || url.password().is_some();
    let user_info = if has_user_info { "xxxxx@" } else { "" };
    let host = url.host_str().unwrap_or_default();
    let port = url
        .port()
        .map_or_else(String::new, |port| format!(":{port}"));
    let path = public_path(url.path().trim_end_matches('/'));
    let query = url.query().map_or("", |_| "?xxxxx");
    let fragment = url.fragment().map_or("", |_| "#xxxxx");
    format!(
        "{}://{user_info}{host}{port}{path}{query}{fragment}",
        url.scheme()
    )
}

/// Without the rules of a URL, a password may contain any character: it ends at the last `@`, in whatever form.
fn redacted_text(text: &str) -> String {
    let is_scheme = |scheme: &str| scheme.chars().all(|c| c.is_ascii_alphanumeric());
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if is_scheme(scheme) => (format!("{scheme}://"), rest),
        _ => (String::new(), text),
    };
    let ends = ["@", "%40", "\u{ff20}"].iter();
    let user_info = ends.filter_map(|end| Some(rest.rfind(end)? + end.len()));
    let (user_info, rest) = match user_info.max().and_then(|end| rest.get(end..)) {
        Some(rest) => ("xxxxx@", rest),
        None => ("", rest),
    };
    let query = rest.find(['?', '#']).unwrap_or(rest.len());
    let (rest, query) = rest.split_at(query);
    let query = query
        .get(..1)
        .map_or_else(String::new, |mark| format!("{mark}{MASK}"));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}{user_info}{authority}{}{query}", public_path(path))
}

fn public_path(path: &str) -> String {
    let segments = path
        .split('/')
        .map(|segment| if is_public(segment) { segment } else { MASK });
    segments.collect::<Vec<_>>().join("/")
}

/// Whether a segment of a path consists of words and small numbers, as in `api-v2` or `remoteWrite`. A long random text is
/// a secret.
fn is_public(segment: &str) -> bool {
    segment.len() < MIN_SECRET_SEGMENT
        || is_ipv4_address(segment)
        || segment.split(['-', '_', '.', ':', '~']).all(is_word)
}

/// Letters in one case, capitalized or in camel case, then up to three digits; or a number.
fn is_word(part: &str) -> bool {
    let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = part.len() - letters.len();
    if letters.is_empty() {
        return digits <= MAX_NUMBER;
    }
    let is_upper = |c: char| c.is_ascii_uppercase();
    let humps = letters
        .split(is_upper)
        .skip(usize::from(letters.starts_with(is_upper)));
    let is_camel_case = humps.clone().count() <= 4 && humps.map(str::len).all(|length| length >= 2);
    let is_one_case = letters.chars().all(is_upper) || !letters.contains(is_upper);
    letters.chars().all(|c| c.is_ascii_alphabetic())
        && letters.len() <= MAX_WORD
        && digits <= 3
        && (is_one_case || is_camel_case)
}

/// Whether it is an IPv4 address, perhaps with a port. The host of a URL without `://` looks like a segment of a path.
fn is_ipv4_address(segment: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.' || byte == b':';
    segment.contains('.') && segment.bytes().all(is_part)
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
        let path = url.path().split('/').filter(|segment| !is_public(segment));
        let query = url.query().into_iter();
        let pairs = query.clone().flat_map(|query| query.split(['&', '=']));
        [url.username(), url.password().unwrap_or_default()]
            .into_iter()
            .chain(url.fragment())
            .chain(path)
            .chain(query)
            .chain(pairs)
            .for_each(|secret| secrets.add(secret));
        if !url.username().is_empty() || url.password().is_some() {
            // The header contains them without percent-encoding.
            let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
            let password = url.password().unwrap_or_default();
            secrets.add_basic(&decoded(url.username()), &decoded(password));
        }
        secrets
    }

    pub(crate) fn add_all(&mut self, others: &Self) {
        others.0.iter().for_each(|secret| self.add(secret));
    }

    /// Credentials of basic authentication, also as the header contains them (RFC 7617).
    pub(crate) fn add_basic(&mut self, user: &str, password: &str) {
        self.add(password);
        self.add(&BASE64_STANDARD.encode(format!("{user}:{password}")));
    }

    /// The value of a header, and the credentials after a scheme such as `Bearer`.
    pub(crate) fn add_header(&mut self, value: &str) {
        self.add(value);
        let credentials = value.rsplit(' ').next().unwrap_or_default();
        self.add(credentials);
        let basic = BASE64_STANDARD.decode(credentials).ok();
        let basic = basic.and_then(|basic| String::from_utf8(basic).ok());
        if let Some((user, password)) = basic.as_deref().and_then(|basic| basic.split_once(':')) {
            self.add_basic(user, password);
        }
    }

    /// Adds a secret as it is, and without its percent-encoding.
    pub(crate) fn add(&mut self, secret: &str) {
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
        for text in ["http://h", "https://h:1/a/", "http://[::1]:80"] {
            assert!(base(text).is_ok(), "{text}");
        }
        for (text, problem) in [
            ("h", "is not a URL"),
            ("http://", "is not a URL"),
            ("h:9093", "neither http nor https"),
            ("ftp://h", "neither http nor https"),
            ("http://user@h", "a user name"),
            ("http://:password@h", "a user name"),
            ("http://h?x=1", "a query"),
            ("http://h#x", "a query"),
        ] {
            let error = base(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn redacted_url_has_no_secrets_and_says_where_they_were() {
        for (text, expected) in [
            ("http://am:9093", "http://am:9093"),
            ("https://am:9093/", "https://am:9093"),
            (
                "http://[::1]:80/otlp/v1/traces",
                "http://[::1]/otlp/v1/traces",
            ),
            ("http://127.0.0.1:8080/vm/7", "http://127.0.0.1:8080/vm/7"),
            (
                "http://h/api/prom/alertmanager",
                "http://h/api/prom/alertmanager",
            ),
            ("https://me:secret@h/x", "https://xxxxx@h/x"),
            ("https://secret@h", "https://xxxxx@h"),
            (
                "https://h/s3cr3ts3cr3t/v1/traces",
                "https://h/xxxxx/v1/traces",
            ),
            (
                "https://h/v1/traces?key=secret",
                "https://h/v1/traces?xxxxx",
            ),
            ("https://h#secret", "https://h#xxxxx"),
            ("ftp://me:secret@h", "ftp://xxxxx@h"),
            ("h:9093", "h:9093"),
            ("http://", "http://"),
            ("me:secret@h:9093", "xxxxx@h:9093"),
            ("http//me:secret@h", "xxxxx@h"),
            ("http://me:secret@h:port", "http://xxxxx@h:port"),
            ("http://me:sec@ret@h:port", "http://xxxxx@h:port"),
            ("http://me:sec#secret@h", "http://xxxxx@h"),
            ("http://me:sec/ret?a=b@h", "http://xxxxx@h"),
            ("http://me:sec ret@h", "http://xxxxx@h"),
            ("http://me:sec\\ret@h:port/", "http://xxxxx@h:port/"),
            ("http://me:sec\nret@h:port", "http://xxxxx@h:port"),
            ("http://me:[ret]@h:port", "http://xxxxx@h:port"),
            ("http://me:secret%40h:port", "http://xxxxx@h:port"),
            ("http://me:secret\u{ff20}h", "http://xxxxx@h"),
            ("me:http://secret@h", "xxxxx@h"),
            ("http:///secret@", "http://xxxxx@"),
            ("file:///me:secret@h", "file://xxxxx@h"),
            ("http:// /?key=secret", "http:// /?xxxxx"),
            ("http://h:port#secret", "http://h:port#xxxxx"),
            ("http://h:port/s3cr3ts3cr3t/v1", "http://h:port/xxxxx/v1"),
            ("http://169.254.169.254:8O", "http://169.254.169.254:8O"),
            ("http//169.254.169.254", "http//169.254.169.254"),
            (
                "http//h.example:80/s3cr3ts3cr3t",
                "http//h.example:80/xxxxx",
            ),
            (
                "h.example/s3cr3ts3cr3t/v1/traces",
                "h.example/xxxxx/v1/traces",
            ),
            ("h:9093/s3cr3ts3cr3t", "h:9093/xxxxx"),
            ("a b\r\nc", "a b  c"),
        ] {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn long_random_segments_of_a_path_are_secrets_and_words_are_not() {
        for word in [
            "opentelemetry",
            "insert",
            "0:1",
            "api-v2",
            "remoteWrite",
            "OTLP",
            "v1beta1",
            "eu1",
            "Microsoft",
            "alertmanager_internal",
            "workspaces",
            "12345678",
            "my-cluster-01",
        ] {
            assert!(is_public(word), "{word}");
        }
        for secret in [
            "hunter2hunter2",
            "3f9c5a1e-7d24-4b8a-9a60-0c1d2e3f4a5b",
            "XXXXXXXXXXXXXXXXXXXXXXXX",
            "T024BE7LD",
            "dGhpc2lzYXNlY3JldA",
            "123456789012",
            "glc_eyJvIjoiMTIzNDU2",
            "secret%2Ftoken",
            "aBcDeFgHiJkL",
        ] {
            assert!(!is_public(secret), "{secret}");
        }
    }

    #[test]
    fn basic_credentials_are_masked_as_they_are_in_the_header() {
        let encoded = BASE64_STANDARD.encode("me:p@ss");
        let echo = format!("authorization: Basic {encoded}, decoded me:p@ss");
        let mut of_header = Secrets::of(&"http://h".parse().unwrap());
        of_header.add_header(&format!("Basic {encoded}"));
        let mut of_file = Secrets::of(&"http://h".parse().unwrap());
        of_file.add_basic("me", "p@ss");
        let of_url = Secrets::of(&"http://me:p%40ss@h".parse().unwrap());
        for secrets in [of_header, of_file, of_url] {
            let masked = secrets.mask(&echo);
            assert!(
                !masked.contains(&encoded) && !masked.contains("p@ss"),
                "{masked}"
            );
        }
    }

    #[test]
    fn secrets_are_masked_in_the_text_of_a_server() {
        let url = "http://me:p%40ss@h/s3cr3t-path/v1/traces?key=secret&x=a";
        let mut secrets = Secrets::of(&url.parse().unwrap());
        secrets.add("Bearer token");
        assert_eq!(
            secrets
                .mask("POST /s3cr3t-path/v1/traces?key=secret for me:p@ss, p%40ss, Bearer token"),
            "POST /xxxxx/v1/traces?xxxxx for me:xxxxx, xxxxx, xxxxx"
                .replace("?xxxxx", "?key=xxxxx")
        );
    }
}
