//! Exposition formats: OpenMetrics 1.0, which is rendered, and Prometheus text 0.0.4, which is derived from it.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>,
//! <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text 0.0.4.
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

    /// Converts OpenMetrics text to this format.
    pub fn write(self, open_metrics: String) -> String {
        match self {
            Self::OpenMetrics => open_metrics,
            Self::Text => to_text(&open_metrics),
        }
    }
}

/// OpenMetrics 1.0 as Prometheus text 0.0.4: metadata of counters and infos with the name of their samples, no units,
/// exemplars or end marker, and only the types of 0.0.4. Invalid lines are left out.
fn to_text(open_metrics: &str) -> String {
    let mut output = String::with_capacity(open_metrics.len());
    let mut help: Option<(&str, &str)> = None;
    // Samples without an exemplar are the same in both formats. A row of them is copied at once.
    let mut unchanged = 0..0;
    for line in open_metrics.split_inclusive('\n') {
        if !line.as_bytes().contains(&b'#') && line.len() > 1 {
            unchanged.end += line.len();
            continue;
        }
        output.push_str(open_metrics.get(unchanged.clone()).unwrap_or_default());
        unchanged = unchanged.end + line.len()..unchanged.end + line.len();
        let line = line.strip_suffix('\n').unwrap_or(line);
        if let Some((name, text)) = metadata(line, "# HELP ") {
            help = Some((name, text));
        } else if let Some((name, kind)) = metadata(line, "# TYPE ") {
            let (suffix, kind) = text_type(kind);
            if let Some((_, help)) = help.take().filter(|(helped, _)| *helped == name) {
                // OpenMetrics escapes quotes in help texts, 0.0.4 does not. Both escape backslashes and line feeds.
                push_line(
                    &mut output,
                    &["# HELP ", name, suffix, " ", &help.replace("\\\"", "\"")],
                );
            }
            push_line(&mut output, &["# TYPE ", name, suffix, " ", kind]);
        } else if !line.starts_with('#')
            && let Some(sample) = without_exemplar(line)
        {
            push_line(&mut output, &[sample]);
        }
    }
    output.push_str(open_metrics.get(unchanged).unwrap_or_default());
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output
}

fn push_line(text: &mut String, parts: &[&str]) {
    text.extend(parts.iter().copied());
    text.push('\n');
}

fn metadata<'a>(line: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let rest = line.strip_prefix(keyword)?;
    Some(rest.split_once(' ').unwrap_or((rest, "")))
}

/// The suffix of the samples of a type, and the type in 0.0.4.
fn text_type(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "counter" => ("_total", "counter"),
        "info" => ("_info", "gauge"),
        "gauge" | "stateset" => ("", "gauge"),
        "histogram" => ("", "histogram"),
        "summary" => ("", "summary"),
        _ => ("", "untyped"),
    }
}

/// A sample without its exemplar, which begins with a number sign outside of quotes.
fn without_exemplar(line: &str) -> Option<&str> {
    // A search is many times faster than the loop below.
    if !line.contains(" # ") {
        return Some(line).filter(|line| !line.is_empty());
    }
    let mut is_quoted = false;
    let mut is_escaped = false;
    let end = line.find(|character| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match character {
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            '"' if !was_escaped => is_quoted = !is_quoted,
            '#' => return !is_quoted,
            _ => {}
        }
        false
    });
    let (sample, _) = line.split_at_checked(end.unwrap_or(line.len()))?;
    Some(sample.trim_end_matches(' ')).filter(|sample| !sample.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_has_only_the_elements_of_0_0_4() {
        let open_metrics = r##"# HELP a_seconds Time \"so\" far, with a \\ and a \n.
# TYPE a_seconds gauge
# UNIT a_seconds seconds
a_seconds{event_id="x # {y",note="quote \" slash \\ line \n } end"} -1.5
# HELP b How many.
# TYPE b counter
b_total 3 # {trace_id="602d9444d2cd49c786248643e7171297"} 1.0 1794906942.5
b_total{c="\\"} 4 # {trace_id="# {"} 1.0
# HELP d A state.
# TYPE d stateset
d{d="on"} 1
# HELP e Build.
# TYPE e info
e_info{version="1"} 1
# HELP f Size.
# TYPE f histogram
f_sum 0.0
f_count 1
f_bucket{le="1.0"} 0 # {trace_id="00"} 0.5
f_bucket{le="+Inf"} 1
# TYPE g unknown
g NaN
# EOF
"##;
        let text = r#"# HELP a_seconds Time "so" far, with a \\ and a \n.
# TYPE a_seconds gauge
a_seconds{event_id="x # {y",note="quote \" slash \\ line \n } end"} -1.5
# HELP b_total How many.
# TYPE b_total counter
b_total 3
b_total{c="\\"} 4
# HELP d A state.
# TYPE d gauge
d{d="on"} 1
# HELP e_info Build.
# TYPE e_info gauge
e_info{version="1"} 1
# HELP f Size.
# TYPE f histogram
f_sum 0.0
f_count 1
f_bucket{le="1.0"} 0
f_bucket{le="+Inf"} 1
# TYPE g untyped
g NaN
"#;
        assert_eq!(Format::Text.write(open_metrics.to_owned()), text);
        assert_eq!(
            Format::OpenMetrics.write(open_metrics.to_owned()),
            open_metrics
        );
    }

    #[test]
    fn empty_exposition_is_converted() {
        assert_eq!(Format::Text.write("# EOF\n".to_owned()), "");
    }

    #[test]
    fn empty_lines_are_left_out_and_the_last_line_is_ended() {
        for (open_metrics, text) in [
            ("a 1\n\nb 2", "a 1\nb 2\n"),
            ("a 1\n\n\n# EOF\nb 2\n\n", "a 1\nb 2\n"),
            ("\n", ""),
            ("7", "7\n"),
        ] {
            assert_eq!(Format::Text.write(open_metrics.to_owned()), text);
        }
    }

    fn escaped(value: &str) -> String {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    }

    proptest! {
        #[test]
        fn label_values_are_unchanged(
            first in r#"([\\"\n\r{}#, =]|\PC){0,12}"#,
            second in "\\PC{0,12}",
            exemplar in r#"[\\"\n#{} a]{0,6}"#,
            value in 0_u32..1000,
        ) {
            let sample = format!("a_total{{b=\"{}\",c=\"{}\"}} {value}", escaped(&first), escaped(&second));
            let open_metrics = format!(
                "# HELP a Help.\n# TYPE a counter\n{sample} # {{trace_id=\"{}\"}} 1.0\n{sample}\n# EOF\n",
                escaped(&exemplar)
            );
            let text = Format::Text.write(open_metrics);
            prop_assert_eq!(
                text,
                format!("# HELP a_total Help.\n# TYPE a_total counter\n{sample}\n{sample}\n")
            );
        }

        #[test]
        fn arbitrary_input_is_accepted(garbage in "\\PC{0,200}") {
            let text = Format::Text.write(garbage);
            prop_assert!(text.is_empty() || text.ends_with('\n'));
        }
    }
}
