//! The spool for tasks: its I/O happens on the worker thread.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Notify, watch};

use super::{Batch, EncodedBatch, Spool};
use crate::{
    base::{time::Moment, worker::Worker},
    outputs::output_counters::{DropReason, ExportCounts},
};

/// One spool, shared by the event loop, which appends, and the sender, which empties it.
#[derive(Debug, Clone)]
pub struct SpoolHandle {
    spool: Arc<Mutex<Spool>>,
    counts: watch::Sender<ExportCounts>,
    appended: Arc<Notify>,
    /// `None` for a spool in memory, which never blocks.
    worker: Option<Worker>,
}

impl SpoolHandle {
    /// A durable spool does its I/O on `worker`.
    pub fn new(spool: Spool, worker: Option<Worker>) -> Self {
        Self {
            worker: worker.filter(|_| spool.directory.is_some()),
            counts: spool.counts.clone(),
            spool: Arc::new(Mutex::new(spool)),
            appended: Arc::default(),
        }
    }

    /// Appends a batch and wakes the sender, without waiting for the disk. Where the worker's queue is full, the batch
    /// is dropped and counted.
    pub fn append(&self, batch: Batch, now: Moment) {
        let records = batch.records.len() as u64;
        let (spool, appended) = (Arc::clone(&self.spool), Arc::clone(&self.appended));
        let append = move || {
            lock(&spool, |spool| spool.append(batch, now));
            appended.notify_one();
        };
        match &self.worker {
            None => append(),
            Some(worker) => {
                if !worker.submit(append) {
                    let drop = |counts: &mut ExportCounts| {
                        counts.drop_records(DropReason::SpoolFull, records);
                    };
                    self.counts.send_modify(drop);
                }
            }
        }
    }

    /// The counters of the spool and of its sender.
    pub fn counts(&self) -> watch::Sender<ExportCounts> {
        self.counts.clone()
    }

    /// Whether waiting records survive the end of this process.
    pub(crate) fn is_durable(&self) -> bool {
        self.worker.is_some()
    }

    /// Returns when a batch was appended since the last call.
    pub(in crate::outputs::otlp) async fn appended(&self) {
        self.appended.notified().await;
    }

    pub(in crate::outputs::otlp) async fn next(&self) -> Option<(u64, EncodedBatch)> {
        // The notification of a batch that is seen below must not end a later backoff.
        pin!(self.appended.notified()).enable();
        self.with(Spool::next).await.flatten()
    }

    /// `None` where the worker's queue is full: a batch that is not completed then is sent again.
    pub(in crate::outputs::otlp) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> T + Send + 'static,
    ) -> Option<T> {
        let spool = Arc::clone(&self.spool);
        let work = move || lock(&spool, work);
        match &self.worker {
            None => Some(work()),
            Some(worker) => worker.run(work).await,
        }
    }
}

fn lock<T>(spool: &Mutex<Spool>, work: impl FnOnce(&mut Spool) -> T) -> T {
    work(&mut spool.lock().unwrap_or_else(PoisonError::into_inner))
}
