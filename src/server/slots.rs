//! The slots for connections, and which connection is evicted when there are too few of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{self, Notify},
    time::{Instant, timeout},
};
use tracing::warn;

use super::activity::{Activity, ConnectionActivity, ResponseBody};

/// How often a waiting connection or response looks for a free slot, for memory, and for connections to evict.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// The open connections of one server.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    max_connections: usize,
    /// Bytes of all bodies that are being sent; one body may be larger.
    max_response_bytes: usize,
    connections: Mutex<Connections>,
    /// Notified when a connection has ended.
    released: Notify,
    /// Held by the response that has waited longest. Only this one evicts.
    response_queue: sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Connections {
    next_id: u64,
    open: BTreeMap<u64, ConnectionActivity>,
    /// Since the last warning.
    evictions: usize,
    warned_at: Option<Instant>,
}

/// The slot of one connection, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    pub(super) activity: ConnectionActivity,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().open.remove(&self.id);
        self.slots.released.notify_waiters();
    }
}

impl Slot {
    /// Waits until the bodies in flight are below the limit. Evicts connections that do not read theirs.
    pub(super) async fn wait_for_response_capacity(&self, is_needed: impl Fn() -> bool) {
        if !is_needed() {
            return;
        }
        let slots = &self.slots;
        let _first = slots.response_queue.lock().await;
        // A response that waited before this one may have made the same body.
        if !is_needed() {
            return;
        }
        slots
            .until(|connections| {
                if connections.response_bytes() < slots.max_response_bytes {
                    return Some(());
                }
                connections.evict(|activity| activity.response.is_some());
                None
            })
            .await;
    }
}

impl ConnectionSlots {
    pub(super) fn new(max_connections: usize, max_response_bytes: usize) -> Self {
        Self {
            max_connections: max_connections.max(1),
            max_response_bytes,
            connections: Mutex::default(),
            released: Notify::new(),
            response_queue: sync::Mutex::default(),
        }
    }

    /// A slot for a connection. Evicts connections until there is one.
    pub(super) async fn acquire(self: &Arc<Self>) -> Slot {
        self.until(|connections| {
            if connections.open.len() < self.max_connections {
                return Some(self.add(connections));
            }
            connections.evict(|_| true);
            None
        })
        .await
    }

    fn add(self: &Arc<Self>, connections: &mut Connections) -> Slot {
        let slot = Slot {
            slots: Arc::clone(self),
            id: connections.next_id,
            activity: ConnectionActivity::new(),
        };
        connections.next_id += 1;
        connections.open.insert(slot.id, slot.activity.clone());
        slot
    }

    /// Evicts a connection for its file descriptor. Waits until one has ended, at most [`RECHECK_INTERVAL`].
    pub(super) async fn evict_one(&self) {
        let released = self.released.notified();
        self.lock().evict(|_| true);
        // At the latest, the accept is tried again.
        timeout(RECHECK_INTERVAL, released).await.ok();
    }

    /// Repeats `attempt` after the end of each connection and at least every [`RECHECK_INTERVAL`].
    async fn until<T>(&self, mut attempt: impl FnMut(&mut Connections) -> Option<T>) -> T {
        loop {
            let released = self.released.notified();
            if let Some(found) = attempt(&mut self.lock()) {
                return found;
            }
            // After either, it is tried again.
            timeout(RECHECK_INTERVAL, released).await.ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    /// Of the bodies that are being sent. The memory of a body is free when no connection sends it any more.
    fn response_bytes(&self) -> usize {
        let connections = self.open.values();
        let bodies: BTreeSet<ResponseBody> = connections
            .filter_map(|connection| connection.get().response)
            .collect();
        bodies.iter().map(|body| body.bytes).sum()
    }

    /// Ends the connection without progress for the longest time, of those that `is_wanted` accepts.
    fn evict(&mut self, is_wanted: fn(&Activity) -> bool) {
        let now = Instant::now();
        let candidates = self.open.values().filter_map(|connection| {
            let activity = connection.get();
            let is_candidate = !connection.evicted.is_cancelled()
                && activity.is_evictable(now)
                && is_wanted(&activity);
            is_candidate.then_some((activity.since, connection))
        });
        if let Some((_, connection)) = candidates.min_by_key(|(since, _)| *since) {
            connection.evict();
            self.evictions += 1;
            self.warn_of_eviction(now);
        }
    }

    /// At most one line a minute.
    fn warn_of_eviction(&mut self, now: Instant) {
        let is_due = self
            .warned_at
            .is_none_or(|at| now.duration_since(at) >= WARNING_INTERVAL);
        if is_due {
            self.warned_at = Some(now);
            warn!(
                evicted = std::mem::take(&mut self.evictions),
                open = self.open.len(),
                "too many HTTP clients or unread responses, connections closed"
            );
        }
    }
}
