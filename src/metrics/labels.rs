//! Labels as text. Most samples of a scrape are of events, and all series of an event have four labels in common.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};

use super::catalog::Labels;

/// Labels that several series have in common, escaped once for all of them.
#[derive(Debug)]
pub(super) struct SharedLabels<'a> {
    pairs: Vec<(&'static str, Cow<'a, str>)>,
    text: String,
}

impl<'a> SharedLabels<'a> {
    /// At least one label.
    pub(super) fn new(pairs: Vec<(&'static str, Cow<'a, str>)>) -> Self {
        let mut text = String::with_capacity(160);
        for (name, value) in &pairs {
            let comma = if text.is_empty() { "" } else { "," };
            text.extend([comma, name, "=\""]);
            push_escaped(&mut text, value);
            text.push('"');
        }
        Self { pairs, text }
    }

    /// These labels, and then `own`.
    pub(super) fn with<'s>(&'s self, own: Labels<'s>) -> Vec<(&'static str, &'s str)> {
        let pairs = self.pairs.iter().map(|(name, value)| (*name, &**value));
        pairs.chain(own.iter().copied()).collect()
    }
}

/// As `prometheus-client` does.
fn push_escaped(text: &mut String, value: &str) {
    if !value
        .bytes()
        .any(|byte| matches!(byte, b'\\' | b'"' | b'\n'))
    {
        return text.push_str(value);
    }
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(character),
        }
    }
}

/// The labels of one series.
#[derive(Debug)]
pub(super) struct SeriesLabels<'a> {
    pub(super) shared: Option<&'a SharedLabels<'a>>,
    pub(super) own: Labels<'a>,
}

impl EncodeLabelSet for SeriesLabels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        if let Some(shared) = self.shared {
            // What is written as the name of a label is copied as it is.
            let mut label = encoder.encode_label();
            label.encode_label_key()?.write_str(&shared.text)?;
        }
        self.own.encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::{
        collector::Collector, encoding::DescriptorEncoder, metrics::MetricType, registry::Registry,
    };
    use proptest::prelude::*;

    use super::*;

    /// The same labels twice: partly shared, and not.
    #[derive(Debug)]
    struct TwoSeries([String; 3]);

    impl Collector for TwoSeries {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let [a, b, c] = self.0.each_ref().map(String::as_str);
            let shared = SharedLabels::new(vec![("a", a.into()), ("b", b.into())]);
            let own = [("c", c)];
            let pairs = shared.with(&own);
            assert_eq!(pairs, [("a", a), ("b", b), ("c", c)]);
            let partly_shared = SeriesLabels {
                shared: Some(&shared),
                own: &own,
            };
            let unshared = SeriesLabels {
                shared: None,
                own: &pairs,
            };
            let mut family = encoder.encode_descriptor("x", "X.", None, MetricType::Gauge)?;
            for labels in [partly_shared, unshared] {
                family.encode_family(&labels)?.encode_gauge(&1_i64)?;
            }
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn shared_labels_are_escaped_as_the_encoder_does(
            values in proptest::array::uniform3(r#"([\\"\n\r{}#, =]|\PC){0,12}"#),
        ) {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(TwoSeries(values)));
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let samples: Vec<_> = text.split('\n').filter(|line| line.starts_with("x{")).collect();
            prop_assert_eq!(samples.len(), 2);
            prop_assert_eq!(samples[0], samples[1]);
        }
    }
}
