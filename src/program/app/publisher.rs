//! Publishes snapshots once their state is on disk.

use std::{future::pending, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::core::snapshot::Snapshot;

/// How long a snapshot waits for the state to be on disk.
pub(super) const DISK_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Publisher {
    snapshots: watch::Sender<Arc<Snapshot>>,
    /// A snapshot whose state is not on disk yet, and when it is published anyway.
    held: Option<(Arc<Snapshot>, Instant)>,
    /// The outstanding write is late: snapshots no longer wait for it.
    is_late: bool,
}

impl Publisher {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self {
            snapshots: watch::Sender::new(Arc::new(snapshot)),
            held: None,
            is_late: false,
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.subscribe()
    }

    pub(super) fn publish(&mut self, snapshot: Arc<Snapshot>, is_write_outstanding: bool) {
        if is_write_outstanding && !self.is_late {
            let deadline = self.held.take().map(|(_, deadline)| deadline);
            let deadline = deadline.unwrap_or_else(|| Instant::now() + DISK_TIMEOUT);
            self.held = Some((snapshot, deadline));
        } else {
            self.held = None;
            self.snapshots.send_replace(snapshot);
        }
    }

    /// No write is outstanding.
    pub(super) fn state_is_on_disk(&mut self) {
        self.is_late = false;
        self.release();
    }

    pub(super) fn state_is_late(&mut self) {
        self.is_late = true;
        self.release();
    }

    fn release(&mut self) {
        if let Some((snapshot, _)) = self.held.take() {
            self.snapshots.send_replace(snapshot);
        }
    }

    /// Returns when the held snapshot has waited for too long; never ready without one.
    pub(super) async fn overdue(&self) {
        match &self.held {
            Some((_, deadline)) => sleep_until(*deadline).await,
            None => pending().await,
        }
    }
}
