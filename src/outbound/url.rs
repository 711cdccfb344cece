//! Checks of the URLs that flags and environment variables name. Pure.

use std::str::FromStr;

use reqwest::Url;

/// Why a URL cannot be used. The text continues a sentence that begins with the URL.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("is not a URL ({0})")]
    Syntax(<Url as FromStr>::Err),
    #[error("is neither http nor https")]
    Scheme,
    /// The text must not repeat the URL then.
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
}
