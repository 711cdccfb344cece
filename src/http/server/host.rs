//! The host that a request names.

use std::net::IpAddr;

use hyper::{HeaderMap, Uri, header::HOST, http::uri::Authority};

use crate::base::text::strip_brackets;

/// Whether the host in the target or, without one there, in the `Host` header (RFC 9112, section 3.2.2) is an IP address
/// or an allowed name. A request without a host is allowed: no browser sends one.
pub(crate) fn is_host_allowed(
    target: &Uri,
    headers: &HeaderMap,
    allows_name: impl FnOnce(&str) -> bool,
) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let authority = match (target.authority(), hosts.next(), hosts.next()) {
        (Some(authority), ..) => authority.clone(),
        (None, None, _) => return true,
        (None, Some(host), None) if host.is_empty() => return true,
        (None, Some(host), None) => match Authority::try_from(host.as_bytes()) {
            Ok(authority) => authority,
            Err(_) => return false,
        },
        (None, Some(_), Some(_)) => return false,
    };
    let host = authority.host();
    strip_brackets(host).parse::<IpAddr>().is_ok() || allows_name(&normalized(host))
}

/// In lower case, without the final dot of a fully qualified name.
pub(crate) fn normalized(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}
