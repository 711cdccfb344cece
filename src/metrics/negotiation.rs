//! What a client asks for: the form of the metrics by `Accept`, and gzip by `Accept-Encoding`.
//!
//! What this room promises: it is pure, it reads whatever a client may send, and a request that asks for nothing that
//! there is gets text 0.0.4, the form that every scraper reads.
//!
//! RFC 9110, sections 12.5.1 and 12.5.3; <https://prometheus.io/docs/instrumenting/content_negotiation/>.

use std::io::{self, Write as _};

use flate2::{Compression, write::GzEncoder};

use super::exposition::Format;

/// How well a media range fits a media type, from not at all over `*/*` and `type/*` up to all of its parameters.
type Fit = Option<u8>;

impl Format {
    /// The form that `Accept` asks for. Several header lines are joined by commas before.
    ///
    /// OpenMetrics has to be asked for by name, and is taken when nothing else is wanted more; a browser and curl, which
    /// take anything, get the form that they can show.
    pub fn negotiate(accept: Option<&str>) -> Self {
        let Some(accept) = accept else {
            return Self::Text;
        };
        let open_metrics = Self::OpenMetrics.wanted(accept);
        let text = Self::Text.wanted(accept).map_or(0.0, |(_, weight)| weight);
        match open_metrics {
            Some((fit, weight)) if fit >= BY_NAME && weight > 0.0 && weight >= text => {
                Self::OpenMetrics
            }
            _ => Self::Text,
        }
    }

    /// The weight of the most specific range that fits, with how specific it is.
    fn wanted(self, accept: &str) -> Option<(u8, f32)> {
        let fits = elements(accept)
            .filter_map(|element| Some((self.fit(element.value, &element)?, element.weight)));
        fits.reduce(|best, next| if next > best { next } else { best })
    }

    fn fit(self, range: &str, element: &Element<'_>) -> Fit {
        let (kind, subtype, version) = match self {
            Self::OpenMetrics => ("application", "openmetrics-text", "1.0.0"),
            Self::Text => ("text", "plain", "0.0.4"),
        };
        let (asked_kind, asked_subtype) = range.split_once('/')?;
        if asked_subtype == "*" {
            let is_any = asked_kind == "*";
            return (is_any || asked_kind.eq_ignore_ascii_case(kind)).then_some(u8::from(!is_any));
        }
        let is_named =
            asked_kind.eq_ignore_ascii_case(kind) && asked_subtype.eq_ignore_ascii_case(subtype);
        let mut fit = BY_NAME;
        // Other parameters, such as `escaping`, ask for nothing that names of ours would need.
        for (name, value) in element.parameters() {
            let has = match name {
                name if name.eq_ignore_ascii_case("version") => version,
                name if name.eq_ignore_ascii_case("charset") => "utf-8",
                _ => continue,
            };
            if !value.eq_ignore_ascii_case(has) && value != "*" {
                return None;
            }
            fit = fit.saturating_add(1);
        }
        is_named.then_some(fit)
    }
}

/// The fit of a range that names type and subtype.
const BY_NAME: u8 = 2;

/// Whether an answer may be compressed with gzip. Without the header it is not: RFC 9110 would allow it, but a client
/// that does not ask may not be able to read it.
pub fn accepts_gzip(accept_encoding: Option<&str>) -> bool {
    let weight = |names: &[&str]| {
        elements(accept_encoding.unwrap_or_default())
            .find(|element| {
                names
                    .iter()
                    .any(|name| element.value.eq_ignore_ascii_case(name))
            })
            .map(|element| element.weight)
    };
    let gzip = weight(&["gzip", "x-gzip"])
        .or_else(|| weight(&["*"]))
        .unwrap_or(0.0);
    gzip > 0.0 && gzip >= weight(&["identity"]).unwrap_or(0.0)
}

/// Compresses a body, fast rather than well: a scrape is paid for by the VM.
pub fn gzip(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

/// One element of a header such as `Accept`.
struct Element<'a> {
    value: &'a str,
    rest: &'a str,
    weight: f32,
}

impl<'a> Element<'a> {
    fn parameters(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        split_unquoted(self.rest, ';')
            .filter_map(|parameter| parameter.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
    }
}

fn elements(header: &str) -> impl Iterator<Item = Element<'_>> {
    split_unquoted(header, ',').map(|element| {
        let (value, rest) = element.split_once(';').unwrap_or((element, ""));
        let mut element = Element {
            value: value.trim(),
            rest,
            weight: 1.0,
        };
        let weight = element
            .parameters()
            .find(|(name, _)| name.eq_ignore_ascii_case("q"))
            .and_then(|(_, weight)| weight.parse().ok());
        // What is no weight counts as none, as in Go's clients and servers.
        element.weight = weight
            .filter(|weight| (0.0..=1.0).contains(weight))
            .unwrap_or(1.0);
        element
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

    use super::*;

    #[test]
    fn each_scraper_gets_the_form_that_it_wants_most() {
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
            // versions that there are not
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
            // what is nothing
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
    fn gzip_is_used_only_where_it_is_wanted() {
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
    fn what_is_compressed_can_be_read_again() {
        let body = "azure_scheduled_events_up 1\n".repeat(100);
        let compressed = gzip(body.as_bytes()).unwrap();
        assert!(compressed.len() < body.len() / 4);
        let mut read = String::new();
        flate2::read::GzDecoder::new(compressed.as_slice())
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, body);
    }

    proptest::proptest! {
        #[test]
        fn no_header_breaks_it(header in "[a-z*/,;=q0-9.\" ]{0,80}") {
            let _ = Format::negotiate(Some(&header));
            let _ = accepts_gzip(Some(&header));
        }
    }
}
