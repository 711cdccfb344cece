//! How many events are followed and kept at the same time. Pure.

use std::{cmp::Reverse, collections::BTreeMap};

use super::entry::TrackerEntry;
use crate::azure::{document::MAX_EVENTS, event::EventId};

/// Ended events that are kept at the same time.
const MAX_ENDED: usize = 1_000;
/// The texts of ended events, and of missing ones, in bytes. One event of a document of 4 MiB always fits.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// The pending events that have been missing for longest, first, of those beyond what one document can have. `present`
/// is the number of events of the last one.
pub(super) fn surplus_missing(
    entries: &mut BTreeMap<EventId, TrackerEntry>,
    present: usize,
) -> Vec<&mut TrackerEntry> {
    let mut missing: Vec<_> = entries
        .values_mut()
        .filter(|entry| entry.tracked.is_pending() && entry.absence.is_some())
        .collect();
    missing.sort_by_key(|entry| Reverse(entry.absence.map(|absence| absence.since)));
    let sizes = missing.iter().map(|entry| entry.tracked.text_bytes());
    let fitting = fitting(sizes, MAX_EVENTS.saturating_sub(present));
    missing.into_iter().skip(fitting).rev().collect()
}

/// The ended events that are not kept: those that ended first.
pub(super) fn surplus_ended(entries: &BTreeMap<EventId, TrackerEntry>) -> Vec<EventId> {
    let events = entries.values().map(|entry| &entry.tracked);
    let mut ended: Vec<_> = events.filter(|event| !event.is_pending()).collect();
    ended.sort_by_key(|event| Reverse(event.end.map(|end| end.at)));
    let sizes = ended.iter().map(|event| event.text_bytes());
    let surplus = ended.iter().skip(fitting(sizes, MAX_ENDED));
    surplus.map(|event| event.shown.id.clone()).collect()
}

/// How many of the events with texts of these sizes are kept.
fn fitting(sizes: impl Iterator<Item = usize>, max_events: usize) -> usize {
    let mut bytes = 0;
    sizes
        .take(max_events)
        .take_while(|size| {
            bytes += size;
            bytes <= MAX_TEXT_BYTES
        })
        .count()
}
