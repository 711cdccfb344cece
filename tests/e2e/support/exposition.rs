//! A parser of Prometheus' text format 0.0.4, independent of the code under test.

use std::collections::BTreeMap;

/// A metric name and its labels, without those that a scraper adds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Series {
    /// `le="1"` and `le="1.0"` are the same bucket: the text formats and Prometheus 3 differ.
    pub(crate) fn new(name: &str, labels: BTreeMap<String, String>) -> Self {
        let labels = labels
            .into_iter()
            .map(|(key, value)| match (key.as_str(), value.parse::<f64>()) {
                ("le", Ok(bound)) => (key, format!("{bound:?}")),
                _ => (key, value),
            })
            .collect();
        Self {
            name: name.to_owned(),
            labels,
        }
    }
}

/// One line of an exposition.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) series: Series,
    pub(crate) value: f64,
}

/// Every sample of an exposition; any other line fails the test.
pub(crate) fn samples(text: &str) -> Vec<Sample> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(sample)
        .collect()
}

fn sample(line: &str) -> Sample {
    let end = line.find(['{', ' ']).expect("something after the name");
    let (name, rest) = line.split_at(end);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest),
        None => (BTreeMap::new(), rest),
    };
    let value = value
        .trim()
        .parse()
        .unwrap_or_else(|_| panic!("no value: {line}"));
    Sample {
        series: Series::new(name, labels),
        value,
    }
}

/// The labels up to the closing brace, and what comes after it.
fn labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(after) = rest.strip_prefix('}') {
            return (labels, after);
        }
        let (key, quoted) = rest.split_once("=\"").expect("a label");
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        rest = loop {
            match characters.next().expect("a closing quote") {
                (at, '"') => break &quoted[at + 1..],
                (_, '\\') => match characters.next().expect("an escaped character").1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, plain) => value.push(plain),
            }
        };
        labels.insert(key.to_owned(), value);
    }
}
