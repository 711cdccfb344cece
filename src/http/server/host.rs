//! The host that a request names.

use std::net::IpAddr;

use hyper::{HeaderMap, Uri, header::HOST, http::uri::Authority};

use crate::base::text::strip_brackets;

/// Without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestedHost {
    /// No browser sends such a request.
    Missing,
    /// An IP address.
    Address,
    /// In lower case, without the final dot of a fully qualified name.
    Name(String),
    Invalid,
}

/// The host in the target or, without one there, in the `Host` header (RFC 9112, section 3.2.2).
pub(crate) fn requested_host(target: &Uri, headers: &HeaderMap) -> RequestedHost {
    let mut hosts = headers.get_all(HOST).iter();
    let authority = match (target.authority(), hosts.next(), hosts.next()) {
        (Some(authority), ..) => authority.clone(),
        (None, None, _) => return RequestedHost::Missing,
        (None, Some(host), None) if host.is_empty() => return RequestedHost::Missing,
        (None, Some(host), None) => match Authority::try_from(host.as_bytes()) {
            Ok(authority) => authority,
            Err(_) => return RequestedHost::Invalid,
        },
        (None, Some(_), Some(_)) => return RequestedHost::Invalid,
    };
    let host = authority.host();
    if strip_brackets(host).parse::<IpAddr>().is_ok() {
        RequestedHost::Address
    } else {
        RequestedHost::Name(normalized(host))
    }
}

/// As in [`RequestedHost::Name`].
pub(crate) fn normalized(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}
