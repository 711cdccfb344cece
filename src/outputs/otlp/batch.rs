//! What is exported in one request.

use opentelemetry_sdk::{Resource, logs::SdkLogRecord, trace::SpanData};

use super::{log_record, resource, settings::OtlpSettings, signal::Signal, trace};
use crate::core::engine::Changes;

/// Spans, or log records, that are exported together, with their resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub resource: Resource,
    /// All of the same signal.
    pub records: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    Span(SpanData),
    Log(SdkLogRecord),
}

/// The spans and log records of changes, for the signals that are exported.
pub fn of(changes: &Changes, settings: &OtlpSettings) -> Vec<(Signal, Batch)> {
    let snapshot = changes.snapshot.as_ref();
    let (identity, vm_name) = (snapshot.identity.as_deref(), snapshot.vm_name.as_deref());
    let vm = trace::vm_key(identity, vm_name);
    let (past, new) = (&changes.newly_own, &changes.transitions);
    let batch = |signal| {
        let records: Vec<_> = match signal {
            Signal::Traces => {
                let past = past.iter().flat_map(|event| trace::backfill(event, &vm));
                let new = new.iter().flat_map(|change| trace::spans(change, &vm));
                past.chain(new).map(Record::Span).collect()
            }
            Signal::Logs => {
                let past = past
                    .iter()
                    .flat_map(|event| log_record::backfill(event, &vm, snapshot));
                let new = new
                    .iter()
                    .flat_map(|change| log_record::records(change, &vm, snapshot));
                past.chain(new).map(Record::Log).collect()
            }
            // Pushed from snapshots.
            Signal::Metrics => Vec::new(),
        };
        (!records.is_empty()).then(|| Batch {
            resource: resource::of(settings, identity, vm_name),
            records,
        })
    };
    let signals = settings.exporters.iter().map(|exporter| exporter.signal);
    signals
        .filter_map(|signal| Some((signal, batch(signal)?)))
        .collect()
}

impl Batch {
    pub fn spans(&self) -> impl Iterator<Item = &SpanData> {
        self.records.iter().filter_map(|record| match record {
            Record::Span(span) => Some(span),
            Record::Log(_) => None,
        })
    }

    pub fn log_records(&self) -> impl Iterator<Item = &SdkLogRecord> {
        self.records.iter().filter_map(|record| match record {
            Record::Span(_) => None,
            Record::Log(record) => Some(record),
        })
    }
}
