//! Parses any bytes as the body of a 200: no panic, no duplicate id, no event lost without an anomaly.
//!
//! `cargo install cargo-fuzz`, then from the root of the repository
//! `cargo +nightly fuzz run document fuzz/corpus/document tests/documents`: new inputs go to the first
//! directory; the test documents are the seeds.

#![no_main]

use std::collections::HashSet;

use azure_scheduled_events_exporter::document::{self, AnomalyKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let Ok((document, anomalies)) = document::parse(body) else {
        return;
    };
    let ids: HashSet<_> = document.events.iter().map(|event| &event.id).collect();
    assert_eq!(ids.len(), document.events.len(), "duplicate id");
    let mut anomalies = anomalies.iter();
    assert!(anomalies.clone().all(|anomaly| !anomaly.detail.contains(char::is_control)));
    let is_recorded = anomalies.len() == 64 || anomalies.any(|one| one.kind == AnomalyKind::Event);
    assert!(document.is_complete() || is_recorded, "an event was lost without an anomaly");
});
