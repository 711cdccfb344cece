//! The spool for tasks: its I/O happens on threads that may block, and what became of the spans can be watched.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::{
    sync::{Notify, watch},
    task::spawn_blocking,
};
use tracing::error;

use super::{Batch, BatchId, Lease, Spool};
use crate::{otlp::Counts, time::Timestamp};

/// One spool, shared by the event loop, which appends, and the sender, which empties it.
#[derive(Debug, Clone)]
pub struct SpoolHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spool: Mutex<Spool>,
    is_durable: bool,
    counts: watch::Sender<Counts>,
    fresh: Notify,
}

impl SpoolHandle {
    /// Takes the spool over.
    pub fn new(spool: Spool) -> Self {
        let shared = Shared {
            is_durable: spool.is_durable(),
            counts: watch::Sender::new(spool.counts().clone()),
            spool: Mutex::new(spool),
            fresh: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Takes spans in and wakes the sender. Once this is done they are durable, see `Spool::append`.
    pub async fn append(&self, batch: Batch, now: Timestamp) {
        if batch.spans.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        self.with(move |spool| {
            spool.append(&batch, now);
            // From here, since the caller may have given up waiting.
            shared.fresh.notify_one();
        })
        .await;
    }

    /// What became of the spans, now and whenever it changes.
    pub fn counts(&self) -> watch::Receiver<Counts> {
        self.shared.counts.subscribe()
    }

    /// Whether what waits survives the end of this process.
    pub fn is_durable(&self) -> bool {
        self.shared.is_durable
    }

    /// Done when spans were appended since this was done last.
    pub(in crate::otlp) async fn fresh(&self) {
        self.shared.fresh.notified().await;
    }

    pub(in crate::otlp) async fn next(&self, now: Timestamp) -> Option<Lease> {
        self.with(move |spool| spool.next(now)).await.flatten()
    }

    /// The batch is off our hands: the collector refused so many of its spans, and took the rest.
    pub(in crate::otlp) async fn done(&self, id: BatchId, taken: u64, rejected: u64) {
        self.with(move |spool| spool.complete(id, rejected)).await;
        self.count(|counts| counts.exported += taken);
    }

    pub(in crate::otlp) async fn maintain(&self, now: Timestamp) {
        self.with(move |spool| spool.maintain(now)).await;
    }

    /// Counts what only the sender knows of.
    pub(in crate::otlp) fn count(&self, count: impl FnOnce(&mut Counts)) {
        self.shared.counts.send_modify(count);
    }

    /// On a thread of its own where there is a disk to wait for. The work is done even if nobody waits for it any more.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Spool) -> T + Send + 'static,
    ) -> Option<T> {
        let shared = Arc::clone(&self.shared);
        let work = move || {
            let mut spool = shared.spool.lock().unwrap_or_else(PoisonError::into_inner);
            let result = work(&mut spool);
            shared.publish(spool.counts());
            result
        };
        if !self.is_durable() {
            return Some(work());
        }
        let done = spawn_blocking(work).await;
        done.inspect_err(|error| error!(%error, "the spool could not be asked"))
            .ok()
    }
}

impl Shared {
    /// What the spool knows of; the rest is the sender's.
    fn publish(&self, spool: &Counts) {
        self.counts.send_if_modified(|counts| {
            let now = Counts {
                exported: counts.exported,
                failures: counts.failures.clone(),
                ..spool.clone()
            };
            let is_news = *counts != now;
            *counts = now;
            is_news
        });
    }
}
