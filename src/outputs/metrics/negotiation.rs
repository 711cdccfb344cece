//! Content negotiation: the format by `Accept`, gzip by `Accept-Encoding`.
//!
//! A request that accepts no supported format gets text 0.0.4, which every scraper can read.
//!
//! RFC 9110, sections 12.5.1 and 12.5.3; <https://prometheus.io/docs/instrumenting/content_negotiation/>.

use std::io::{self, Write as _};

use flate2::{Compression, write::GzEncoder};

use super::exposition::Format;

/// How specifically a media range matches: 0 for `*/*`, 1 for `type/*`, more with subtype and parameters.
type Specificity = u8;

impl Format {
    /// The format for an `Accept` header, whose lines have been joined by commas.
    ///
    /// OpenMetrics must be named and must not have a lower weight than text. Browsers and curl, which accept anything,
    /// get text.
    pub(crate) fn negotiate(accept: Option<&str>) -> Self {
        let accept = accept.unwrap_or_default();
        let text = Self::Text.best_match(accept);
        let text = text.map_or(0.0, |(_, weight)| weight);
        match Self::OpenMetrics.best_match(accept) {
            Some((specificity, weight))
                if specificity >= NAMED && weight > 0.0 && weight >= text =>
            {
                Self::OpenMetrics
            }
            _ => Self::Text,
        }
    }

    /// The most specific range that matches, and its weight.
    fn best_match(self, accept: &str) -> Option<(Specificity, f32)> {
        let matches = elements(accept)
            .filter_map(|element| Some((self.specificity(&element)?, element.weight)));
        matches.reduce(|best, next| if next > best { next } else { best })
    }

    fn specificity(self, range: &Element<'_>) -> Option<Specificity> {
        let (kind, subtype, version) = match self {
            Self::OpenMetrics => ("application", "openmetrics-text", "1.0.0"),
            Self::Text => ("text", "plain", "0.0.4"),
        };
        let (range_kind, range_subtype) = range.value.split_once('/')?;
        if range_subtype == "*" {
            let is_any = range_kind == "*";
            return (is_any || range_kind.eq_ignore_ascii_case(kind)).then_some(u8::from(!is_any));
        }
        let is_named =
            range_kind.eq_ignore_ascii_case(kind) && range_subtype.eq_ignore_ascii_case(subtype);
        let mut specificity = NAMED;
        // Other parameters, such as `escaping`, do not matter for our metric names.
        for (name, value) in parameters(range.rest) {
            let supported = match name {
                name if name.eq_ignore_ascii_case("version") => version,
                name if name.eq_ignore_ascii_case("charset") => "utf-8",
                _ => continue,
            };
            if !value.eq_ignore_ascii_case(supported) && value != "*" {
                return None;
            }
            specificity = specificity.saturating_add(1);
        }
        is_named.then_some(specificity)
    }
}

/// A range that names type and subtype.
const NAMED: Specificity = 2;

/// False without the header: RFC 9110 allows any encoding then, but the client may not support gzip.
pub(crate) fn accepts_gzip(accept_encoding: Option<&str>) -> bool {
    let weight = |name: &str| {
        let mut elements = elements(accept_encoding.unwrap_or_default());
        let element = elements.find(|element| element.value.eq_ignore_ascii_case(name))?;
        Some(element.weight)
    };
    let gzip = ["gzip", "x-gzip", "*"].into_iter().find_map(weight);
    let gzip = gzip.unwrap_or(0.0);
    gzip > 0.0 && gzip >= weight("identity").unwrap_or(0.0)
}

/// Fast rather than small, because the VM pays for the CPU time.
pub(crate) fn gzip(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(body)?;
    gzip.finish()
}

/// One element of a header such as `Accept`.
struct Element<'a> {
    value: &'a str,
    rest: &'a str,
    weight: f32,
}

fn parameters(text: &str) -> impl Iterator<Item = (&str, &str)> {
    split_unquoted(text, ';')
        .filter_map(|parameter| parameter.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
}

fn elements(header: &str) -> impl Iterator<Item = Element<'_>> {
    split_unquoted(header, ',').map(|element| {
        let (value, rest) = element.split_once(';').unwrap_or((element, ""));
        let weight = parameters(rest).find(|(name, _)| name.eq_ignore_ascii_case("q"));
        let weight = weight.and_then(|(_, weight)| weight.parse().ok());
        Element {
            value: value.trim(),
            rest,
            // An invalid weight counts as 1, as in Go.
            weight: weight.filter(|it| (0.0..=1.0).contains(it)).unwrap_or(1.0),
        }
    })
}

/// Splits at a separator outside of quotes.
fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |character| {
        is_quoted ^= character == '"';
        character == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn scraper_gets_its_preferred_format() {
        use Format::{OpenMetrics, Text};
        for (accept, expected) in [
            // Prometheus 2.42, 3.x, VictoriaMetrics, Telegraf, curl, a browser
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                OpenMetrics,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
                OpenMetrics,
            ),
            ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Text),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3",
                Text,
            ),
            ("*/*", Text),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
                Text,
            ),
            // by name, without a version, in any case, with quotes
            ("application/openmetrics-text", OpenMetrics),
            (
                "Application/OpenMetrics-Text; Version=\"1.0.0\"; Charset=UTF-8",
                OpenMetrics,
            ),
            ("application/openmetrics-text; version=*", OpenMetrics),
            (
                "application/openmetrics-text;q=0.2, text/plain;q=0.2",
                OpenMetrics,
            ),
            // unknown versions
            ("application/openmetrics-text; version=0.0.1", Text),
            (
                "application/openmetrics-text; version=2.0.0, text/plain;q=0.1",
                Text,
            ),
            (
                "application/openmetrics-text; version=0.0.1, application/openmetrics-text;version=1.0.0;q=0.1",
                OpenMetrics,
            ),
            // weights
            ("application/openmetrics-text;q=0.2, text/plain;q=0.3", Text),
            ("application/openmetrics-text;q=0, */*", Text),
            (
                "application/openmetrics-text;version=1.0.0;q=0, application/openmetrics-text",
                Text,
            ),
            (
                "text/plain;q=0, application/openmetrics-text;q=0.1",
                OpenMetrics,
            ),
            (
                "text/plain;version=0.0.4;q=0.1, */*;q=0.9, application/openmetrics-text;q=0.5",
                OpenMetrics,
            ),
            ("application/*", Text),
            // nothing usable
            ("", Text),
            (",;,;q=,=;\",/", Text),
            ("image/png", Text),
            ("text/plain;q=0", Text),
        ] {
            assert_eq!(Format::negotiate(Some(accept)), expected, "{accept}");
        }
        assert_eq!(Format::negotiate(None), Text);
    }

    #[test]
    fn gzip_can_be_read_again_at_every_size() {
        let text: Vec<u8> = (0..70_000_u32)
            .map(|at| b'a' + (at.wrapping_mul(2_654_435_761) >> 27) as u8)
            .collect();
        for size in [0, 1, 255, 256, 511, 512, 513, 4_095, 32_767, 32_768, 70_000] {
            for body in [&text[..size], &vec![0; size]] {
                let mut read = Vec::new();
                let compressed = gzip(body).unwrap();
                GzDecoder::new(compressed.as_slice())
                    .read_to_end(&mut read)
                    .unwrap();
                assert!(read == body, "{size}");
            }
        }
    }

    #[test]
    fn gzip_is_used_only_if_accepted() {
        for (accept_encoding, expected) in [
            ("gzip", true),
            ("gzip, deflate, br, zstd", true),
            ("GZIP;q=0.5", true),
            ("x-gzip", true),
            ("*", true),
            ("identity;q=0.5, gzip;q=1.0", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000, *", false),
            ("*;q=0", false),
            ("identity, gzip;q=0.3", false),
            ("deflate, br", false),
            ("", false),
        ] {
            assert_eq!(
                accepts_gzip(Some(accept_encoding)),
                expected,
                "{accept_encoding}"
            );
        }
        assert!(!accepts_gzip(None));
    }

    #[test]
    fn compressed_body_can_be_decompressed() {
        let body = "azure_scheduled_events_up 1\n".repeat(100);
        let compressed = gzip(body.as_bytes()).unwrap();
        assert!(compressed.len() < body.len() / 4);
        let mut read = String::new();
        GzDecoder::new(compressed.as_slice())
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, body);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_header_is_accepted(header in "[a-z*/,;=q0-9.\" ]{0,80}") {
            let _ = Format::negotiate(Some(&header));
            let _ = accepts_gzip(Some(&header));
        }
    }
}
