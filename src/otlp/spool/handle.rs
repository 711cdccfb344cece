//! The spool for tasks: its I/O happens on the worker thread, and its counters can be watched.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{Notify, watch};

use super::{Batch, Lease, Spool};
use crate::{
    snapshot::{DropReason, ExportCounts},
    time::Moment,
    worker::Worker,
};

/// One spool, shared by the event loop, which appends, and the sender, which empties it.
#[derive(Debug, Clone)]
pub struct SpoolHandle {
    shared: Arc<Shared>,
    /// `None` for a spool in memory, which never blocks.
    worker: Option<Worker>,
}

#[derive(Debug)]
struct Shared {
    spool: Mutex<Spool>,
    counts: watch::Sender<ExportCounts>,
    appended: Notify,
    /// Records that did not fit into the worker's queue.
    overflowed_records: AtomicU64,
}

impl SpoolHandle {
    /// A durable spool does its I/O on `worker`.
    pub fn new(spool: Spool, worker: Option<Worker>) -> Self {
        let worker = worker.filter(|_| spool.is_durable());
        let shared = Shared {
            counts: watch::Sender::new(spool.counts().clone()),
            spool: Mutex::new(spool),
            appended: Notify::new(),
            overflowed_records: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
            worker,
        }
    }

    /// Appends a batch and wakes the sender, without waiting for the disk. Where the worker's queue is full, the batch
    /// is dropped and counted.
    pub fn append(&self, batch: Batch, now: Moment) {
        let records = batch.records.len() as u64;
        let shared = Arc::clone(&self.shared);
        let append = move || {
            shared.with(|spool| spool.append(&batch, now));
            shared.appended.notify_one();
        };
        match &self.worker {
            None => append(),
            Some(worker) => {
                if !worker.submit(append) {
                    // Together under the lock of the counters, so that `publish` sees both or none.
                    self.count(|counts| {
                        let overflowed = &self.shared.overflowed_records;
                        overflowed.fetch_add(records, Ordering::Relaxed);
                        counts.drop_records(DropReason::SpoolFull, records);
                    });
                }
            }
        }
    }

    /// The counters, now and whenever they change.
    pub fn counts(&self) -> watch::Receiver<ExportCounts> {
        let mut counts = self.shared.counts.subscribe();
        // The spool may hold records of an earlier process.
        counts.mark_changed();
        counts
    }

    /// Whether waiting records survive the end of this process.
    pub(crate) fn is_durable(&self) -> bool {
        self.worker.is_some()
    }

    /// Returns when a batch was appended since the last call.
    pub(in crate::otlp) async fn appended(&self) {
        self.shared.appended.notified().await;
    }

    pub(in crate::otlp) async fn next(&self, now: Moment) -> Option<Lease> {
        // Of batches that are seen below: it must not end a later backoff.
        pin!(self.shared.appended.notified()).enable();
        let next = self.with(move |spool| spool.next(now)).await;
        next.flatten()
    }

    /// Counts what only the sender and this handle know.
    pub(in crate::otlp) fn count(&self, count: impl FnOnce(&mut ExportCounts)) {
        self.shared.counts.send_modify(count);
    }

    /// `None` where the worker's queue is full: a batch that is not completed then is sent again.
    pub(in crate::otlp) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> T + Send + 'static,
    ) -> Option<T> {
        let shared = Arc::clone(&self.shared);
        let work = move || shared.with(work);
        match &self.worker {
            None => Some(work()),
            Some(worker) => worker.run(work).await,
        }
    }
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut Spool) -> T) -> T {
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut spool);
        self.publish(spool.counts());
        result
    }

    /// Publishes the spool's own counters; the others belong to the sender.
    fn publish(&self, spool: &ExportCounts) {
        self.counts.send_if_modified(|counts| {
            let mut now = ExportCounts {
                failures: counts.failures.clone(),
                ..spool.clone()
            };
            let overflowed = self.overflowed_records.load(Ordering::Relaxed);
            now.drop_records(DropReason::SpoolFull, overflowed);
            let is_changed = *counts != now;
            *counts = now;
            is_changed
        });
    }
}
