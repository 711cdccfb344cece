//! What is exported in one request.

use opentelemetry_sdk::{Resource, logs::SdkLogRecord, trace::SpanData};

use super::{log_record, resource, settings::OtlpSettings, signal::Signal, trace};
use std::sync::Arc;

use crate::core::{journal::Entry, snapshot::Snapshot};

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

/// The spans and log records of entries, for the signals that are exported.
pub fn of(
    entries: &[Arc<Entry>],
    snapshot: &Snapshot,
    settings: &OtlpSettings,
) -> Vec<(Signal, Batch)> {
    let (identity, vm_name) = (snapshot.identity.as_deref(), snapshot.vm_name.as_deref());
    let batch = |signal| {
        let entries = entries.iter();
        let entries = entries.map(|entry| {
            let vm = trace::vm_key(identity, entry.vm.as_deref());
            (&entry.transition, vm)
        });
        let records: Vec<_> = match signal {
            Signal::Traces => entries
                .flat_map(|(change, vm)| trace::spans(change, &vm))
                .map(Record::Span)
                .collect(),
            Signal::Logs => entries
                .flat_map(|(change, vm)| log_record::records(change, &vm, snapshot))
                .map(Record::Log)
                .collect(),
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
