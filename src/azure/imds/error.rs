//! The errors of requests to IMDS: each has a reason, and a message with a hint for the operator. `base` is the base
//! URL.

use std::{io, time::Duration};

use hyper::{
    header::{self, HeaderMap, HeaderValue},
    http::response::Parts,
};

use crate::{
    azure::{FailureReason, RequestError, document::ParseError},
    base::{
        text,
        time::{Timestamp, in_words},
    },
    http::client::{
        error::{causes, is_tls, root_cause},
        retry::retry_after,
    },
};

pub(super) fn connect_timeout(base: &str) -> RequestError {
    let message = format!(
        "no connection to {base} in time; is this an Azure VM? If so, check the route to the address, in Kubernetes that \
         the pod can reach link-local addresses (hostNetwork)"
    );
    RequestError {
        is_unsent: true,
        ..RequestError::new(FailureReason::Timeout, message)
    }
}

pub(super) fn timeout(base: &str, after: Duration) -> RequestError {
    let message = format!("no complete answer from {base} within {}", in_words(after));
    RequestError::new(FailureReason::Timeout, message)
}

/// Of a request whose connection could not be opened.
pub(super) fn connect(
    error: &(dyn std::error::Error + 'static),
    is_https: bool,
    base: &str,
) -> RequestError {
    if causes(error).any(|inner| is_tls(inner) || is_https && is_closed(inner)) {
        return tls(base, error);
    }
    let message = format!(
        "no connection to {base}: {}; on an Azure VM check the route to the address and the firewall rules, in Kubernetes \
         that the pod can reach link-local addresses (hostNetwork)",
        root_cause(error)
    );
    RequestError {
        is_unsent: true,
        ..RequestError::new(FailureReason::Connect, message)
    }
}

/// Of a request that failed before the response headers arrived.
pub(super) fn exchange(error: &hyper::Error, base: &str) -> RequestError {
    if causes(error).any(is_tls) {
        return tls(base, error);
    }
    let cause = root_cause(error);
    let message = if error.is_parse() {
        format!(
            "{base} answers, but not in HTTP ({cause}): something other than IMDS listens there"
        )
    } else {
        format!("{base} closed the connection without an answer: {cause}")
    };
    RequestError::new(FailureReason::Connect, message)
}

fn tls(base: &str, error: &(dyn std::error::Error + 'static)) -> RequestError {
    let cause = root_cause(error);
    let message = format!("TLS with {base} failed: {cause}; IMDS itself speaks plain http");
    RequestError::new(FailureReason::Tls, message)
}

/// Of a response with an unexpected status. `is_compute`: to a request for instance metadata, which a classic cloud
/// service does not have.
pub(super) fn status(
    response: &Parts,
    body: &[u8],
    is_compute: bool,
    now: Timestamp,
) -> RequestError {
    let headers = &response.headers;
    let status = response.status.as_u16();
    let shown = format!(
        "HTTP {status}{}{}",
        describe_body(body),
        other_cloud(headers)
    );
    let (reason, message) = match status {
        304 => (
            FailureReason::Redirect,
            "HTTP 304 to an unconditional request: a cache answers in place of IMDS".to_owned(),
        ),
        300..=399 => {
            let location = headers.get(header::LOCATION).map(HeaderValue::as_bytes);
            let location = location.map_or("nowhere".into(), String::from_utf8_lossy);
            let message = format!(
                "HTTP {status}, a redirect to {}, is not followed: IMDS sends none, so a proxy or a captive portal answers \
                 in its place",
                excerpt(&location)
            );
            (FailureReason::Redirect, message)
        }
        400 | 404 if is_compute => {
            let message = format!(
                "{shown}: no instance metadata for this VM, as in a classic cloud service; --vm.name sets the name that \
                 Resources contain, such as Role_IN_0"
            );
            (FailureReason::Status4xx, message)
        }
        410 => (
            FailureReason::Gone,
            "HTTP 410: IMDS is being updated, which takes 70 seconds at most".to_owned(),
        ),
        429 => (
            FailureReason::Throttled,
            "HTTP 429: more than five requests a second by all readers on this VM together; raise the poll interval of one \
             of them"
                .to_owned(),
        ),
        400..=499 => (FailureReason::Status4xx, shown + client_error_hint(status)),
        500..=599 => {
            let hint = server_error_hint(status);
            let message = format!("{shown}: an IMDS fault, usually temporary{hint}");
            (FailureReason::Status5xx, message)
        }
        _ => {
            let message = format!("{shown} is not a status of IMDS: something else listens there");
            (FailureReason::Shape, message)
        }
    };
    RequestError {
        status: Some(status),
        retry_after: retry_after(headers, now).filter(|_| status == 429),
        ..RequestError::new(reason, message)
    }
}

pub(super) fn parse(error: ParseError, body: &[u8]) -> RequestError {
    match error {
        ParseError::Json(detail) => json("a scheduled-events document", &detail, body),
        ParseError::Shape(detail) => shape(&detail, body),
    }
}

pub(super) fn json(expected: &str, detail: &str, body: &[u8]) -> RequestError {
    let hint = markup_hint(body);
    let message = format!("the body of HTTP 200 is not JSON: expected {expected}; {detail}{hint}");
    RequestError::new(FailureReason::Json, message)
}

/// JSON, but not the expected document.
pub(super) fn shape(detail: &str, body: &[u8]) -> RequestError {
    let hint = markup_hint(body);
    let message = format!("the body of HTTP 200 is JSON, but not as expected: {detail}{hint}");
    RequestError::new(FailureReason::Shape, message)
}

/// The Metadata Security Protocol puts `GuestProxyAgent` in front of IMDS. Its statuses are those of
/// <https://github.com/Azure/GuestProxyAgent> (`proxy_server.rs`), usually with an empty body and `Connection: close`.
fn client_error_hint(status: u16) -> &'static str {
    match status {
        400 => "; check --imds.api-version",
        401 => "; IMDS asks for no credentials, so something else listens there",
        403 => {
            "; with the Metadata Security Protocol (proxyAgentSettings of the VM), GuestProxyAgent refuses this process: \
             allow its user or its executable in the access control rules of IMDS; without it, is this another cloud?"
        }
        421 => {
            "; GuestProxyAgent of the Metadata Security Protocol cannot identify the process behind this connection: the next \
             request uses a new one; if it fails too, restart GuestProxyAgent"
        }
        404 => "; is this an Azure VM, and --imds.url the address of its IMDS?",
        _ => "",
    }
}

fn server_error_hint(status: u16) -> &'static str {
    match status {
        502 | 503 => {
            "; with the Metadata Security Protocol, GuestProxyAgent cannot reach IMDS on the host: check its log if this lasts"
        }
        _ => "",
    }
}

fn markup_hint(body: &[u8]) -> &'static str {
    let is_markup = body.trim_ascii_start().starts_with(b"<");
    if is_markup {
        "; it looks like a web page: a proxy or a captive portal answers in place of IMDS"
    } else {
        ""
    }
}

/// True if the connection was closed during the handshake.
fn is_closed(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|io| {
        matches!(
            io.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
        )
    })
}

/// The beginning of untrusted text, safe for a log line.
pub(super) fn excerpt(text: &str) -> String {
    const MAX_CHARS: usize = 160;
    text::excerpt(text, MAX_CHARS)
}

/// Other clouds serve their metadata at the same address and identify themselves.
fn other_cloud(headers: &HeaderMap) -> &'static str {
    let server = headers.get(header::SERVER).map(HeaderValue::as_bytes);
    if headers.contains_key("Metadata-Flavor") {
        " (this is the metadata server of Google Cloud)"
    } else if server.is_some_and(|server| server.starts_with(b"EC2ws")) {
        " (this is the metadata service of Amazon EC2)"
    } else {
        ""
    }
}

/// The message of an error body, to follow `HTTP 400`. IMDS sends `{"error": TEXT}`, with `newest-versions` if the
/// requested api-version is unknown.
fn describe_body(body: &[u8]) -> String {
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(body) else {
        let text = String::from_utf8_lossy(body);
        return match text.trim() {
            "" => String::new(),
            page if page.starts_with('<') => {
                " with a web page: a proxy or a captive portal answers in place of IMDS".to_owned()
            }
            text => format!(" {:?}", excerpt(text)),
        };
    };
    let text = json.get("error").and_then(serde_json::Value::as_str);
    let text = text.map_or_else(String::new, |text| format!(" {:?}", excerpt(text)));
    let versions = json.get("newest-versions").filter(|v| v.is_array());
    let versions = versions.map_or_else(String::new, |versions| {
        let versions = excerpt(&versions.to_string());
        format!(" (newest versions: {versions})")
    });
    text + &versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_body_is_described() {
        assert_eq!(
            describe_body(br#"{"error":"Bad request. Required metadata header not specified"}"#),
            r#" "Bad request. Required metadata header not specified""#
        );
        assert_eq!(
            describe_body(
                br#"{"error":"Bad request.","newest-versions":["2025-04-07","2024-07-17"]}"#
            ),
            r#" "Bad request." (newest versions: ["2025-04-07","2024-07-17"])"#
        );
        assert_eq!(describe_body(b""), "");
        assert_eq!(describe_body(b"null"), "");
        assert_eq!(describe_body(b"no such thing\n"), r#" "no such thing""#);
        assert!(describe_body(b" <html>").contains("captive portal"));
    }
}
