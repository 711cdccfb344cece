//! Exposition formats, OpenMetrics 1.0 and Prometheus text 0.0.4, and their negotiation: the format by `Accept`, gzip by
//! `Accept-Encoding`.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>,
//! <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>,
//! <https://prometheus.io/docs/instrumenting/content_negotiation/>.

use std::io::{self, Write as _};

use flate2::{Compression, write::GzEncoder};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    /// Prometheus text 0.0.4: metadata of counters with the name of their samples; no units, exemplars or end marker.
    Text,
}

impl Format {
    /// Prometheus 3 rejects a scrape without a known Content-Type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// OpenMetrics if an `Accept` header names it with no lower weight than text. Browsers and curl, which accept
    /// anything, get text, and so does a request that accepts no supported format: every scraper can read it.
    pub(crate) fn negotiate(accept: Option<&str>) -> Self {
        let weight = |name, version| weight(accept, name, version).unwrap_or(0.0);
        let open_metrics = weight("application/openmetrics-text", "1.0.0");
        if open_metrics > 0.0 && open_metrics >= weight("text/plain", "0.0.4") {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }
}

/// False without the header: RFC 9110 allows any encoding then, but the client may not support gzip.
pub(crate) fn accepts_gzip(accept_encoding: Option<&str>) -> bool {
    let weight = |name| weight(accept_encoding, name, "");
    let gzip = ["gzip", "x-gzip", "*"].into_iter().find_map(weight);
    let gzip = gzip.unwrap_or(0.0);
    gzip > 0.0 && gzip >= weight("identity").unwrap_or(0.0)
}

/// The highest weight of the elements of a header with this name, and with this version if they have one (RFC 9110,
/// section 12.4.2). The lines of the header have been joined by commas.
fn weight(header: Option<&str>, name: &str, version: &str) -> Option<f32> {
    let elements = header.unwrap_or_default().split(',');
    let weights = elements.filter_map(|element| {
        let mut parts = element.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case(name) {
            return None;
        }
        let mut weight = 1.0;
        for (key, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim_matches('"');
            if key.eq_ignore_ascii_case("version") && ![version, "*"].contains(&value) {
                return None;
            }
            if key.eq_ignore_ascii_case("q") {
                // An invalid weight counts as 1, as in Go.
                let given = value.parse().ok();
                weight = given.filter(|it| (0.0..=1.0).contains(it)).unwrap_or(1.0);
            }
        }
        Some(weight)
    });
    weights.reduce(f32::max)
}

/// Fast rather than small, because the VM pays for the CPU time.
pub(crate) fn gzip(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(body)?;
    gzip.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    /// `Accept` of Prometheus 2.42 and 3.x; by name, without a version, in any case, with quotes; with weights.
    const OPEN_METRICS: &str = r#"
        application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1
        application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1
        application/openmetrics-text
        Application/OpenMetrics-Text; Version="1.0.0"; Charset=UTF-8
        application/openmetrics-text; version=*
        application/openmetrics-text;q=0.2, text/plain;q=0.2
        text/plain;q=0, application/openmetrics-text;q=0.1
    "#;
    /// `Accept` of VictoriaMetrics, Telegraf, curl, a browser; with a version, with weights; nothing usable.
    const TEXT: &str = r#"
        text/plain;version=0.0.4;q=1,*/*;q=0.1
        application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3
        */*
        text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8
        application/openmetrics-text; version=0.0.1
        application/openmetrics-text;q=0.2, text/plain;q=0.3
        application/openmetrics-text;q=0, */*
        application/*
        ,;,;q=,=;",/
    "#;

    #[test]
    fn scraper_gets_its_preferred_format() {
        for (rows, expected) in [(OPEN_METRICS, Format::OpenMetrics), (TEXT, Format::Text)] {
            for accept in rows.trim().lines().map(str::trim) {
                assert_eq!(Format::negotiate(Some(accept)), expected, "{accept}");
            }
        }
        assert_eq!(Format::negotiate(Some("")), Format::Text);
        assert_eq!(Format::negotiate(None), Format::Text);
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
            let found = accepts_gzip(Some(accept_encoding));
            assert_eq!(found, expected, "{accept_encoding}");
        }
        assert!(!accepts_gzip(None));
    }

    #[test]
    fn gzip_is_smaller_and_can_be_read_again() {
        for body in [vec![], b"azure_scheduled_events_up 1\n".repeat(3_000)] {
            let compressed = gzip(&body).unwrap();
            assert!(compressed.len() < 100 + body.len() / 4);
            let mut read = Vec::new();
            let mut decoder = GzDecoder::new(compressed.as_slice());
            decoder.read_to_end(&mut read).unwrap();
            assert_eq!(read, body);
        }
    }
}
