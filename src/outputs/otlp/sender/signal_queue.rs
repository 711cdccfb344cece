//! What one signal has to send: the journal, and how far it was sent. Shared by the event loop and the sender.

use std::{pin::pin, sync::Arc};

use parking_lot::Mutex;
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
        let count: fn(&Entry) -> u64 = match signal {
            Signal::Traces => |entry| trace::spans(&entry.transition, "").len() as u64,
            _ => |entry| entry.transition.own_changes().len() as u64,
        };
        let cursor = Cursor::new(journal, saved, count);
        let (spooled, lost) = (cursor.unsent(), cursor.lost());
        let queue = Self {
            signal,
            cursor: Mutex::new(cursor),
            added: Notify::new(),
            moved,
            counts: watch::Sender::new(ExportCounts {
                spooled,
                ..ExportCounts::default()
            }),
        };
        queue.drop_unsent(DropReason::Unreadable, lost, "lost with the journal");
        queue
    }

    fn drop_unsent(&self, reason: DropReason, count: u64, effect: &str) {
        if count > 0 {
            let (reason_label, records) = (reason.as_str(), self.signal.records());
            warn!(reason = reason_label, count, "unsent {records} {effect}");
            self.counts
                .send_modify(|counts| counts.drop_records(reason, count));
        }
    }

    /// Takes a new version of the journal, from which `dropped` have fallen off.
    pub fn update(&self, journal: &Arc<Journal>, dropped: &[Arc<Entry>]) {
        let mut cursor = self.cursor.lock();
        let known = Arc::clone(&cursor.journal);
        if Arc::ptr_eq(&known, journal) {
            return;
        }
        let newest = (known.id == journal.id).then_some(known.newest);
        let is_released = known.ownership.is_doubtful && !journal.ownership.is_doubtful;
        let mut added = journal.after(newest.unwrap_or_default());
        let is_more = is_released || added.any(|entry| cursor.count(entry) > 0);
        let lost = cursor.update(journal, dropped);
        self.drop_unsent(DropReason::SpoolFull, lost, "dropped from the journal");
        self.counts
            .send_modify(|counts| counts.spooled = cursor.unsent());
        if is_more {
            self.added.notify_one();
        }
    }

    pub fn saved(&self, journal: &Journal) -> SavedCursor {
        self.cursor.lock().saved(journal)
    }

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
        self.cursor.lock().next_entries()
    }

    /// The request ended; the receiver has taken and rejected so many records of it. Returns what is dropped beside
    /// these: the number of records, for each entry, and the reason.
    pub(super) fn complete(
        &self,
        result: RequestResult,
        exported: u64,
        rejected: u64,
    ) -> Vec<(u64, DropReason)> {
        let mut cursor = self.cursor.lock();
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
}
