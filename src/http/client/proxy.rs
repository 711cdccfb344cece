//! The proxy of a URL, as curl takes it from the environment.

use std::{env, net::IpAddr};

use ipnet::IpNet;
use reqwest::Url;

use super::url::{self, UrlError};
use crate::base::text::strip_brackets;

/// Lower case first, as in curl.
const PROXY_VARIABLES: [(&str, [&str; 2]); 3] = [
    ("http", ["http_proxy", "HTTP_PROXY"]),
    ("https", ["https_proxy", "HTTPS_PROXY"]),
    ("all", ["all_proxy", "ALL_PROXY"]),
];
const EXCEPTION_VARIABLES: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// The proxy for a URL; `None` for a direct connection.
///
/// # Errors
/// When a variable cannot be read: one line with its name, its value without secrets, and a remedy.
#[expect(clippy::disallowed_methods, reason = "the environment is the setting")]
pub(crate) fn of(url: &Url) -> Result<Option<Url>, String> {
    find(url, |name| {
        env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    })
}

/// The proxies that variables name.
#[expect(clippy::disallowed_methods, reason = "the environment is the setting")]
pub(super) fn all() -> impl Iterator<Item = Url> {
    let names = PROXY_VARIABLES.into_iter().flat_map(|(_, names)| names);
    names.filter_map(|name| parse(&env::var(name).ok()?).ok())
}

fn find(url: &Url, lookup: impl Fn(&str) -> Option<String>) -> Result<Option<Url>, String> {
    let get = |name| {
        let value = lookup(name)?.trim().to_owned();
        (!value.is_empty()).then_some((name, value))
    };
    let schemes = PROXY_VARIABLES.into_iter();
    let names = schemes.filter(|(scheme, _)| [url.scheme(), "all"].contains(scheme));
    let Some((name, value)) = names.flat_map(|(_, names)| names).find_map(get) else {
        return Ok(None);
    };
    let proxy = parse(&value).map_err(|cause| {
        let shown = url::redacted(&value);
        format!("{name}: {shown:?} {cause}: write the proxy as http://HOST:PORT, or unset {name}")
    })?;
    let Some((name, exceptions)) = EXCEPTION_VARIABLES.into_iter().find_map(get) else {
        return Ok(Some(proxy));
    };
    let host = strip_brackets(url.host_str().unwrap_or_default()).trim_end_matches('.');
    let port = url.port_or_known_default().map(|port| format!(":{port}"));
    let entries = exceptions.split([',', ' ']);
    let entries = entries.map(|entry| without_port(entry, port.as_deref().unwrap_or_default()));
    let entries = entries.map(|entry| entry.replace(['[', ']'], ""));
    let entries: Vec<_> = entries.filter(|entry| !entry.is_empty()).collect();
    let is_unreadable = |entry: &&String| entry.contains('/') && entry.parse::<IpNet>().is_err();
    if let Some(entry) = entries.iter().find(is_unreadable) {
        return Err(format!(
            "{name}: {entry:?} is no network: write it as 10.0.0.0/8 or fd00::/8, or omit it"
        ));
    }
    let is_excepted = entries.iter().any(|entry| matches(entry, host));
    Ok((!is_excepted).then_some(proxy))
}

/// Without this port, which no IPv6 address without brackets has. An entry with another port matches no host.
fn without_port<'a>(entry: &'a str, port: &str) -> &'a str {
    let host = entry.strip_suffix(port);
    let host = host.filter(|host| !host.contains(':') || host.ends_with(']'));
    host.unwrap_or(entry)
}

/// Whether an entry of `NO_PROXY` is about a host: `*`, a domain with its subdomains, an address or a network.
fn matches(entry: &str, host: &str) -> bool {
    let network = entry
        .parse()
        .or_else(|_| entry.parse().map(|address: IpAddr| address.into()));
    match (host.parse::<IpAddr>(), network) {
        _ if entry == "*" => true,
        (Ok(address), Ok(network)) => IpNet::contains(&network, &address),
        (Err(_), Err(_)) => {
            let domain = entry
                .trim_start_matches('*')
                .trim_matches('.')
                .to_lowercase();
            let rest = host.strip_suffix(&*domain).filter(|_| !domain.is_empty());
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }
        _ => false,
    }
}

/// The URL of a proxy, which is http if it has no scheme.
fn parse(text: &str) -> Result<Url, UrlError> {
    if text.contains("://") {
        url::http(text)
    } else {
        url::http(&format!("http://{text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(url: &str, variables: &[(&str, &str)]) -> Result<Option<String>, String> {
        let lookup = |name: &str| {
            let mut variables = variables.iter();
            let (_, value) = variables.find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        };
        let found = find(&url.parse().unwrap(), lookup)?;
        Ok(found.map(|proxy| proxy.to_string()))
    }

    #[test]
    fn proxy_is_that_of_the_scheme_or_of_all() {
        let p = Some("http://p:1/");
        let (q, me) = (Some("http://q:2/"), Some("https://me:x@p:1/"));
        let lower = ("http_proxy", "p:1");
        let upper = ("HTTP_PROXY", "q:2");
        for (url, variables, expected) in [
            ("http://h", &[][..], None),
            ("http://h", &[lower, upper], p),
            ("http://h", &[("http_proxy", " "), upper], q),
            ("https://h", &[lower], None),
            ("https://h", &[("HTTPS_PROXY", "https://me:x@p:1")], me),
            ("https://h", &[("ALL_PROXY", "http://p:1")], p),
        ] {
            let found = proxy(url, variables).unwrap();
            assert_eq!(found.as_deref(), expected, "{url} {variables:?}");
        }
    }

    /// Exceptions => hosts without a proxy | hosts with one.
    const EXCEPTIONS: &str = "
        * => 10.0.0.1:9093 [::1] h |
        a, * => h |
        example.com => example.com EXAMPLE.com.:80 a.b.example.com | notexample.com example.org
        .example.com *.example.org => example.com a.example.org | com
        10.0.0.1,::1,[fd00::2] => 10.0.0.1:1 [::1] [fd00::2] | 10.0.0.2 h
        h:9093 10.0.0.1:9093,[fd00::2]:80 => h:9093 10.0.0.1:9093 [fd00::2] | h 10.0.0.1 [fd00::2]:81
        10.0.0.0/8,[fd00::]/8 => 10.255.0.1 [fdff::1] | 11.0.0.1 [fe00::1] h
        0.0.0.0/0 => 1.2.3.4 | [::1]
         ,  => | h
    ";

    #[test]
    fn exceptions_are_hosts_addresses_and_networks() {
        for row in EXCEPTIONS.lines().filter(|row| row.contains("=>")) {
            let (exceptions, hosts) = row.split_once("=>").unwrap();
            let (direct, proxied) = hosts.split_once('|').unwrap();
            let variables = [("ALL_PROXY", "http://p"), ("NO_PROXY", exceptions)];
            for (hosts, is_proxied) in [(direct, false), (proxied, true)] {
                for host in hosts.split_whitespace() {
                    let found = proxy(&format!("http://{host}"), &variables).unwrap();
                    assert_eq!(found.is_some(), is_proxied, "{exceptions}: {host}");
                }
            }
        }
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named_with_its_variable_and_without_its_secret() {
        for value in [
            "socks5://me:hunter2@p:1",
            "http://me:hunter2@p:port",
            "me:hunter2@",
            "http://",
        ] {
            let error = proxy("http://h", &[("http_proxy", value)]).unwrap_err();
            assert!(
                error.starts_with("http_proxy: ") && !error.contains("hunter2"),
                "{error}"
            );
        }
        for network in ["10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x", "a/8"] {
            let error =
                proxy("http://h", &[("http_proxy", "p:1"), ("no_proxy", network)]).unwrap_err();
            assert!(error.starts_with("no_proxy: "), "{error}");
        }
    }
}
