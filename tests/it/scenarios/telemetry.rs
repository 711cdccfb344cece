//! What a timeline sends: the log lines with an ID, the transitions for `watch`, log records and spans.

use std::{collections::BTreeMap, fmt::Write as _, time::SystemTime};

use opentelemetry::{
    logs::AnyValue,
    trace::{SpanId, Status},
};
use opentelemetry_sdk::{logs::SdkLogRecord, trace::SpanData};
use serde_json::Value;

use super::describe_changes;
use crate::support::simulated_vm::{SimulatedVm, at};

/// Since the last description. `last` are the attributes of the last record or span.
pub(super) fn describe(vm: &SimulatedVm, last: &mut BTreeMap<String, String>, report: &mut String) {
    let mut lines = vm.log.iter();
    while let Some(line) = lines.find(|line| line.field("transition").is_some()) {
        // The name of a line without an ID is a place in the code.
        let is_id = line
            .name
            .chars()
            .all(|c| c.is_ascii_uppercase() || c == '_');
        let name = if is_id { line.name } else { "no ID" };
        writeln!(report, "  logged: {name}").unwrap();
    }
    let (journal, json) = (&vm.published.journal, vm.whole_json());
    if journal.ownership.is_doubtful {
        writeln!(report, "  the owner of the state is not known").unwrap();
    }
    let waiting = vm
        .emitted
        .iter()
        .filter(|(entry, _)| !journal.may_send(entry));
    for (entry, _) in waiting {
        writeln!(report, "  waits for the owner: {}", entry.number).unwrap();
    }
    writeln!(
        report,
        "  journal {} of {} entries, {} events",
        journal.id,
        journal.after(0).count(),
        json["events"].as_array().unwrap().len(),
    )
    .unwrap();
    let first = vm.emitted.first().map(|(entry, _)| entry.number);
    if let Some(first) = first {
        let (_, body) = vm.get(&format!("/api/v1/transitions?after={}", first - 1));
        let body: Value = serde_json::from_str(&body).unwrap();
        for line in body["transitions"].as_array().unwrap() {
            let (number, name) = (&line["number"], line["transition"].as_str().unwrap());
            let (scope, was) = (&line["event"]["scope"], &line["was_scope"]);
            writeln!(
                report,
                "  transition {number}: {name}, scope {scope}, was {was}"
            )
            .unwrap();
        }
    }
    for record in vm.log_records() {
        describe_record(&record, last, report);
    }
    for span in vm.spans() {
        describe_span(&span, last, report);
    }
}

/// Of the timeline, also where the clock was set to before it.
fn since_start(time: SystemTime) -> String {
    match time.duration_since(at(0).into()) {
        Ok(after) => format!("{after:?}"),
        Err(before) => format!("-{:?}", before.duration()),
    }
}

fn describe_record(
    record: &SdkLogRecord,
    last: &mut BTreeMap<String, String>,
    report: &mut String,
) {
    let context = record.trace_context().unwrap();
    assert_eq!(record.observed_timestamp(), record.timestamp());
    writeln!(
        report,
        "  record {} at {}: {:?}, {}, span {}",
        record.event_name().unwrap(),
        since_start(record.timestamp().unwrap()),
        record.severity_number().unwrap(),
        plain(record.body().unwrap()),
        context.span_id,
    )
    .unwrap();
    let attributes = record.attributes_iter();
    let attributes = attributes.map(|(name, value)| (name.to_string(), plain(value)));
    let trace = ("trace".to_owned(), context.trace_id.to_string());
    describe_changes(attributes.chain([trace]).collect(), last, "    ", report);
}

fn plain(value: &AnyValue) -> String {
    match value {
        AnyValue::String(text) => text.to_string(),
        AnyValue::Int(number) => number.to_string(),
        AnyValue::Double(number) => number.to_string(),
        AnyValue::ListAny(values) => {
            let values: Vec<_> = values.iter().map(plain).collect();
            format!("{values:?}").replace(", ", ",")
        }
        other => format!("{other:?}"),
    }
}

fn describe_span(span: &SpanData, last: &mut BTreeMap<String, String>, report: &mut String) {
    let parent = match span.parent_span_id {
        SpanId::INVALID => "none".to_owned(),
        parent => parent.to_string(),
    };
    let status = if span.status == Status::Unset {
        ""
    } else {
        ", error"
    };
    writeln!(
        report,
        "  span {} from {} to {}: {}, parent {parent}{status}",
        span.name,
        since_start(span.start_time),
        since_start(span.end_time),
        span.span_context.span_id(),
    )
    .unwrap();
    for event in span.events.iter() {
        let at = since_start(event.timestamp);
        writeln!(report, "    event {} at {at}", event.name).unwrap();
    }
    let attributes = span.attributes.iter();
    let attributes = attributes.map(|it| (it.key.to_string(), it.value.to_string()));
    let trace = span.span_context.trace_id().to_string();
    let trace = ("trace".to_owned(), trace);
    describe_changes(attributes.chain([trace]).collect(), last, "    ", report);
}
