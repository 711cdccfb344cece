//! What one signal has to send: the journal, and how far it was sent. Shared by the event loop and the sender.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, watch};
use tracing::warn;

use crate::{
    core::{
        journal::{Entry, Journal},
        lifecycle::SavedCursor,
    },
    outputs::{
        otlp::{
            Signal,
            cursor::{Cursor, RequestResult},
            trace,
        },
        output_counters::{DropReason, ExportCounts},
    },
};

/// No call blocks.
#[derive(Debug)]
pub struct SignalQueue {
    pub(crate) signal: Signal,
    cursor: Mutex<Cursor>,
    added: Notify,
    moved: Arc<Notify>,
    counts: watch::Sender<ExportCounts>,
}

impl SignalQueue {
    /// Continues where an earlier process ended. `moved` is notified when the cursor is to be saved.
    pub fn new(
        signal: Signal,
        journal: &Arc<Journal>,
        saved: Option<&SavedCursor>,
        moved: Arc<Notify>,
    ) -> Self {
        let count = match signal {
            Signal::Traces => count_spans,
            Signal::Logs | Signal::Metrics => count_log_records,
        };
        let cursor = Cursor::new(journal, saved, count);
        let mut counts = ExportCounts {
            spooled: cursor.unsent(),
            ..ExportCounts::default()
        };
        let lost = cursor.lost();
        if lost > 0 {
            warn!(
                reason = DropReason::Unreadable.as_str(),
                count = lost,
                "unsent {} lost with the journal",
                signal.records()
            );
            counts.drop_records(DropReason::Unreadable, lost);
        }
        Self {
            signal,
            cursor: Mutex::new(cursor),
            added: Notify::new(),
            moved,
            counts: watch::Sender::new(counts),
        }
    }

    /// Takes a new version of the journal, from which `dropped` have fallen off.
    pub fn update(&self, journal: &Arc<Journal>, dropped: &[Arc<Entry>]) {
        let mut cursor = self.lock();
        let known = Arc::clone(cursor.journal());
        if Arc::ptr_eq(&known, journal) {
            return;
        }
        let newest = if known.id == journal.id {
            known.newest
        } else {
            0
        };
        let is_released = journal.is_owned && !known.is_owned;
        let mut added = journal.after(newest);
        let is_more = is_released || added.any(|entry| cursor.count(entry) > 0);
        let lost = cursor.update(journal, dropped);
        if lost > 0 {
            warn!(
                reason = DropReason::SpoolFull.as_str(),
                count = lost,
                "unsent {} dropped from the journal",
                self.signal.records()
            );
        }
        self.counts.send_modify(|counts| {
            counts.spooled = cursor.unsent();
            counts.drop_records(DropReason::SpoolFull, lost);
        });
        if is_more {
            self.added.notify_one();
        }
    }

    /// How far this journal was sent.
    pub fn saved(&self, journal: &Journal) -> SavedCursor {
        self.lock().saved(journal)
    }

    /// The counters of the signal.
    pub fn counts(&self) -> watch::Sender<ExportCounts> {
        self.counts.clone()
    }

    /// Returns when something was added since the last call of [`Self::next`].
    pub(super) async fn added(&self) {
        self.added.notified().await;
    }

    /// The entries of the next request, which are in flight until [`Self::complete`].
    pub(super) fn next(&self) -> Vec<Arc<Entry>> {
        // What is seen below must not end a later backoff.
        pin!(self.added.notified()).enable();
        self.lock().next_entries()
    }

    /// The request ended; the receiver has taken and rejected so many records of it. Returns what is dropped beside
    /// these: the number of records, for each entry, and the reason.
    pub(super) fn complete(
        &self,
        result: RequestResult,
        exported: u64,
        rejected: u64,
    ) -> Vec<(u64, DropReason)> {
        let mut cursor = self.lock();
        let dropped = cursor.apply(result).into_iter();
        let dropped = dropped.map(|(entry, reason)| (cursor.count(&entry), reason));
        let dropped: Vec<_> = dropped.collect();
        self.counts.send_modify(|counts| {
            counts.exported += exported;
            counts.drop_records(DropReason::Rejected, rejected);
            for (records, reason) in &dropped {
                counts.drop_records(*reason, *records);
            }
            counts.spooled = cursor.unsent();
        });
        if result == RequestResult::Accepted || !dropped.is_empty() {
            self.moved.notify_one();
        }
        dropped
    }

    fn lock(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count_spans(entry: &Entry) -> u64 {
    trace::spans(&entry.transition, "").len() as u64
}

fn count_log_records(entry: &Entry) -> u64 {
    entry.transition.own_changes().len() as u64
}
