//! All outputs give the same answers: what is pending, whether it stops this VM, how it ended.

use std::collections::BTreeMap;

use azure_scheduled_events_exporter::time::Timestamp;
use opentelemetry::{KeyValue, logs::AnyValue, trace::SpanId};
use opentelemetry_sdk::{logs::SdkLogRecord, trace::SpanData};
use serde_json::Value;

use crate::support::{exporter::Metrics, log::LogLine};

/// What a reader sees at one moment.
pub(super) struct Outputs {
    pub(super) json: Value,
    pub(super) page: String,
    pub(super) metrics: Metrics,
    pub(super) is_serving: bool,
}

impl Outputs {
    pub(super) fn assert_agreement(&self, context: &str) {
        let events: Vec<_> = self.json["events"].as_array().unwrap().iter().collect();
        for phase in ["scheduled", "started", "advisory", "ended"] {
            let listed = events.iter().filter(|it| it["phase"] == phase).count();
            let shown = self
                .page
                .matches(&format!(r#"data-phase="{phase}""#))
                .count();
            assert_eq!(shown, listed, "{context}: {phase} on the page");
        }
        self.assert_counts_agree(&events, context);
        self.assert_freshness_agrees(context);
        let is_clear = self.page.contains("state clear");
        let may_be_own = |it: &Value| it["scope"] != "other" && is_pending(it);
        let is_certain = self.metrics.is_up()
            && self.json["warming_up"] == false
            && self.json["unreadable_entries"] == 0;
        assert_eq!(
            is_clear,
            is_certain && !events.iter().any(|it| may_be_own(it)),
            "{context}: an all-clear"
        );
        let stopping = events.iter().find(|it| stops_this_vm_soon(it));
        let is_early = |it: &&Value| {
            let summary = it["summary"].as_str().unwrap();
            let ends = [" may start at any moment", " is about to be approved"];
            interrupts_this_vm(it) && ends.iter().any(|end| summary.contains(end))
        };
        let is_about_to_be_approved = events.iter().any(is_early);
        assert_eq!(
            self.is_serving,
            stopping.is_none() && !is_about_to_be_approved,
            "{context}: {stopping:?}"
        );
        for ended in events.iter().filter(|it| it["phase"] == "ended") {
            let summary = ended["summary"].as_str().unwrap();
            let shown = summary.replace('&', "&amp;").replace('"', "&quot;");
            assert!(self.page.contains(&shown), "{context}: {shown}");
        }
    }

    fn assert_freshness_agrees(&self, context: &str) {
        let (json, metrics) = (&self.json, &self.metrics);
        let is_one = |name: &str| metrics.value(&format!("azure_scheduled_events_{name}"));
        let as_value = |is: &Value| Some(f64::from(u8::from(*is == true)));
        assert_eq!(is_one("up"), as_value(&json["health"]["up"]), "{context}");
        let warming_up = is_one("warming_up");
        assert_eq!(warming_up, as_value(&json["warming_up"]), "{context}");
        let is_counted = metrics.0.contains("azure_scheduled_events_pending{");
        // An unreadable entry may be any event, and without a name each event may be of this VM.
        let has_zeros = json["unreadable_entries"] == 0 && !json["vm"]["name"].is_null();
        let is_stale = json["stale"] == true;
        assert!(is_stale || is_counted || !has_zeros, "{context}");
        assert!(!is_stale || !is_counted, "{context}");
        let last_success = json["health"]["last_success_at"].as_str().map(|at| {
            let at = Timestamp::parse(at).unwrap();
            at.as_unix_seconds()
        });
        let shown = is_one("last_success_timestamp_seconds");
        assert_eq!(shown, last_success, "{context}");
    }

    /// Of the metrics and the JSON.
    fn assert_counts_agree(&self, events: &[&Value], context: &str) {
        let mut pending: BTreeMap<String, f64> = BTreeMap::new();
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        for event in events {
            let text = |member: &str| event[member].as_str().unwrap().to_owned();
            if is_pending(event) {
                *pending.entry(text("scope")).or_default() += 1.0;
            } else if event["phase"] == "ended" {
                *outcomes.entry(text("outcome")).or_default() += 1;
            }
        }
        let samples = |name: &str| {
            let name = format!("{name}{{");
            let lines = self.metrics.0.lines();
            let samples = lines.filter(move |line| line.starts_with(&name));
            samples.map(str::to_owned).collect::<Vec<_>>()
        };
        let label = |sample: &str, label: &str| {
            let (_, value) = sample.split_once(&format!("{label}=\"")).unwrap();
            value.split('"').next().unwrap().to_owned()
        };
        if self.json["stale"] == false {
            let mut counted: BTreeMap<String, f64> = BTreeMap::new();
            for sample in samples("azure_scheduled_events_pending") {
                let value: f64 = sample.rsplit_once(' ').unwrap().1.parse().unwrap();
                *counted.entry(label(&sample, "scope")).or_default() += value;
            }
            counted.retain(|_, count| *count > 0.0);
            assert_eq!(counted, pending, "{context}: pending");
        }
        let mut ended: BTreeMap<String, usize> = BTreeMap::new();
        for sample in samples("azure_scheduled_event_ended_timestamp_seconds") {
            *ended.entry(label(&sample, "outcome")).or_default() += 1;
        }
        assert_eq!(ended, outcomes, "{context}: outcomes");
    }
}

fn is_pending(event: &Value) -> bool {
    event["phase"] == "scheduled" || event["phase"] == "started"
}

/// By `docs/http.md`: a page about it may be critical.
fn stops_this_vm_soon(event: &Value) -> bool {
    let countdown = event["not_before_countdown_seconds"].as_f64();
    let is_approved = ["approval_sent_at", "approved_at", "approved_elsewhere_at"]
        .iter()
        .any(|member| !event[*member].is_null());
    let is_soon = countdown.is_none_or(|seconds| seconds <= 300.0) || is_approved;
    interrupts_this_vm(event) && (event["phase"] == "started" || is_soon)
}

fn interrupts_this_vm(event: &Value) -> bool {
    let is_harmless = event["EventType"] == "Freeze" && event["DurationInSeconds"] == 0;
    is_pending(event) && event["scope"] == "self" && !is_harmless
}

/// The end of an event of this VM in the log, the spans and the log records of one input.
pub(super) fn assert_one_outcome(
    log: &[LogLine],
    sent_spans: &[SpanData],
    sent_records: &[SdkLogRecord],
    context: &str,
) {
    let is_whole = |span: &&SpanData| span.parent_span_id == SpanId::INVALID;
    let is_end = |line: &&LogLine| line.field("transition") == Some("ended");
    for line in log.iter().filter(is_end) {
        let outcome = line.field("outcome").unwrap();
        let id = line.field("event_id").map(str::to_owned);
        let (mut spans, mut records) = (0, 0);
        for span in sent_spans.iter().filter(is_whole) {
            let value = span_attribute(span, "outcome");
            if span_attribute(span, "id") == id && value.is_some() {
                assert_eq!(value.as_deref(), Some(outcome), "{context}: span");
                spans += 1;
            }
        }
        let is_end = |it: &&SdkLogRecord| it.event_name() == Some("azure.scheduled_event.ended");
        let ends = sent_records.iter().filter(is_end);
        for record in ends.filter(|it| record_attribute(it, "id") == id) {
            let value = record_attribute(record, "outcome");
            assert_eq!(value.as_deref(), Some(outcome), "{context}: record");
            let body = text(record.body().unwrap()).unwrap();
            let is_advisory = body.contains("advisory");
            let message = if is_advisory { "ended" } else { outcome };
            assert!(body.contains(message), "{context}: {body}");
            records += 1;
        }
        let is_own = line.field("scope") == Some("self");
        assert_eq!((spans > 0, records > 0), (is_own, is_own), "{context}");
    }
}

fn span_attribute(span: &SpanData, name: &str) -> Option<String> {
    let is_named = |it: &&KeyValue| it.key.as_str() == format!("azure.scheduled_event.{name}");
    let attribute = span.attributes.iter().find(is_named)?;
    Some(attribute.value.to_string())
}

fn record_attribute(record: &SdkLogRecord, name: &str) -> Option<String> {
    let name = format!("azure.scheduled_event.{name}");
    let mut attributes = record.attributes_iter();
    let (_, value) = attributes.find(|(key, _)| key.as_str() == name)?;
    text(value)
}

fn text(value: &AnyValue) -> Option<String> {
    match value {
        AnyValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}
