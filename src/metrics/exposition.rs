//! The two forms in which metrics are served: OpenMetrics 1.0, which is what is rendered, and Prometheus text 0.0.4,
//! which is made of it.
//!
//! What this room promises: it is pure, each form has a Content-Type that Prometheus 3 takes (it fails a scrape without
//! one), and no label value changes on the way. What it must never do: know what any metric means.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>,
//! <https://github.com/prometheus/OpenMetrics/blob/v1.0.0/specification/OpenMetrics.md>.

/// A form of exposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text 0.0.4.
    Text,
}

impl Format {
    /// The exact Content-Type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The form in which OpenMetrics text goes out.
    pub fn write(self, open_metrics: String) -> String {
        match self {
            Self::OpenMetrics => open_metrics,
            Self::Text => to_text(&open_metrics),
        }
    }
}

/// OpenMetrics 1.0 as Prometheus text 0.0.4: metadata of counters and infos under the name that their samples have, no
/// units, no exemplars, no end mark, types that there are.
///
/// Metadata may come in any order; lines that are no OpenMetrics are left out.
fn to_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.split('\n') {
        if let Some((name, words)) = metadata(line, "# HELP ") {
            help = Some((name, words));
        } else if let Some((name, kind)) = metadata(line, "# TYPE ") {
            let (suffix, kind) = text_type(kind);
            if let Some((_, words)) = help.take().filter(|(helped, _)| *helped == name) {
                // A quote is escaped in OpenMetrics, and is not in 0.0.4; backslash and line feed are in both.
                push_line(
                    &mut text,
                    &["# HELP ", name, suffix, " ", &words.replace("\\\"", "\"")],
                );
            }
            push_line(&mut text, &["# TYPE ", name, suffix, " ", kind]);
        } else if !line.starts_with('#')
            && let Some(sample) = without_exemplar(line)
        {
            push_line(&mut text, &[sample]);
        }
    }
    text
}

fn push_line(text: &mut String, parts: &[&str]) {
    text.extend(parts.iter().copied());
    text.push('\n');
}

fn metadata<'a>(line: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let rest = line.strip_prefix(keyword)?;
    Some(rest.split_once(' ').unwrap_or((rest, "")))
}

/// What a type is called in 0.0.4, and what its samples have behind the name of the family.
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

/// A sample up to its value. The exemplar begins with a number sign behind the value; one that stands in the quotes of a
/// label value does not count.
fn without_exemplar(line: &str) -> Option<&str> {
    // Nearly all lines: a search for text is many times faster than the walk below.
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
    fn text_has_what_0_0_4_knows_and_nothing_else() {
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
    fn nothing_becomes_nothing() {
        assert_eq!(Format::Text.write("# EOF\n".to_owned()), "");
    }

    fn escaped(value: &str) -> String {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    }

    proptest! {
        #[test]
        fn label_values_survive_whatever_is_in_them(
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
        fn no_input_breaks_it(garbage in "\\PC{0,200}") {
            let text = Format::Text.write(garbage);
            prop_assert!(text.is_empty() || text.ends_with('\n'));
        }
    }
}
