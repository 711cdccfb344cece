//! The proxy of a URL, as reqwest takes it from the environment.

use std::env;

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::Url;

use super::url;

/// In the order in which reqwest reads them.
const VARIABLES: [[&str; 2]; 3] = [
    ["HTTP_PROXY", "http_proxy"],
    ["HTTPS_PROXY", "https_proxy"],
    ["ALL_PROXY", "all_proxy"],
];

/// The proxy through which a client of reqwest requests a URL; `None` for a direct connection.
pub(crate) fn of(url: &Url) -> Option<Intercept> {
    if has_no_proxy_for_any() {
        return None;
    }
    Matcher::from_system().intercept(&url.as_str().parse().ok()?)
}

/// `NO_PROXY=*`, which the matcher takes for all host names, but not for addresses.
#[expect(clippy::disallowed_methods, reason = "the environment is the setting")]
fn has_no_proxy_for_any() -> bool {
    let mut exceptions = ["NO_PROXY", "no_proxy"]
        .into_iter()
        .filter_map(|name| env::var(name).ok());
    exceptions.next().is_some_and(|value| value.trim() == "*")
}

/// A proxy for messages, without secrets.
pub(crate) fn shown(proxy: &Intercept) -> String {
    url::shown(&proxy.uri().to_string())
}

/// The variables that are set, each with its proxy for messages; `None` if it names no HTTP proxy.
#[expect(clippy::disallowed_methods, reason = "the environment is the setting")]
pub(crate) fn variables() -> impl Iterator<Item = (&'static str, Option<String>)> {
    let set = VARIABLES.into_iter().filter_map(|names| {
        let mut values = names
            .into_iter()
            .filter_map(|name| Some((name, env::var(name).ok()?)));
        values.next().filter(|(_, value)| !value.is_empty())
    });
    set.map(|(name, value)| {
        let proxy = Matcher::builder().all(value).build();
        let proxy = proxy.intercept(&hyper::Uri::from_static("http://any"));
        let is_http = |proxy: &Intercept| url::http(&proxy.uri().to_string()).is_ok();
        (name, proxy.filter(is_http).as_ref().map(shown))
    })
}
