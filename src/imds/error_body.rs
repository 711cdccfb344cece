//! Describes an error response from its headers and its body.

use reqwest::header::{self, HeaderMap, HeaderValue};

use super::error::excerpt;

/// Other clouds serve their metadata at the same address and identify themselves.
pub(super) fn other_cloud(headers: &HeaderMap) -> &'static str {
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
pub(super) fn describe_body(body: &[u8]) -> String {
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
