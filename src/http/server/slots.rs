//! The slots for connections, and which connection is evicted when there are too few of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{self, Notify},
    time::{Instant, timeout},
};
use tracing::{debug, warn};

use super::activity::{Activity, ConnectionActivity, ResponseBody};

/// How often a waiting connection or response looks for a free slot, for memory, and for connections to evict.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);
/// An address with more than the slots divided by this number loses its connections before others do.
const ADDRESS_SHARE_DIVISOR: usize = 4;
/// The slots divided by this number are evicted at a time: a search for each one would cost much when many clients
/// reopen at once.
const EVICTED_SHARE_DIVISOR: usize = 32;
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
    open: BTreeMap<u64, (IpAddr, ConnectionActivity)>,
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
                connections.evict(slots.max_connections, 1, |activity| {
                    activity.response.is_some()
                });
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

    /// A slot for a connection from this address. Evicts connections until there is one.
    pub(super) async fn acquire(self: &Arc<Self>, peer: SocketAddr) -> Slot {
        let address = group(peer.ip());
        self.until(|connections| {
            if connections.open.len() < self.max_connections {
                return Some(self.add(connections, address));
            }
            let some = (self.max_connections / EVICTED_SHARE_DIVISOR).max(1);
            connections.evict(self.max_connections, some, |_| true);
            None
        })
        .await
    }

    fn add(self: &Arc<Self>, connections: &mut Connections, address: IpAddr) -> Slot {
        let slot = Slot {
            slots: Arc::clone(self),
            id: connections.next_id,
            activity: ConnectionActivity::new(),
        };
        connections.next_id += 1;
        let connection = (address, slot.activity.clone());
        connections.open.insert(slot.id, connection);
        slot
    }

    /// Evicts a connection for its file descriptor. Waits until one has ended, at most [`RECHECK_INTERVAL`].
    pub(super) async fn evict_one(&self) {
        let released = self.released.notified();
        self.lock().evict(self.max_connections, 1, |_| true);
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
    /// The size of all bodies that are being sent. The memory of a body is free when no connection sends it any more.
    fn response_bytes(&self) -> usize {
        let connections = self.open.values();
        let bodies: BTreeSet<ResponseBody> = connections
            .filter_map(|(_, activity)| activity.get().response)
            .collect();
        bodies.iter().map(|body| body.bytes).sum()
    }

    /// Ends up to `count` connections that `is_wanted` accepts, those without progress for the longest time first.
    /// Connections of an address with more than its share come before all others.
    fn evict(&mut self, max_connections: usize, count: usize, is_wanted: fn(&Activity) -> bool) {
        let now = Instant::now();
        let mut per_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (address, _) in self.open.values() {
            *per_address.entry(*address).or_default() += 1;
        }
        per_address.retain(|_, count| *count > max_connections / ADDRESS_SHARE_DIVISOR);
        let candidates = self.open.values().filter_map(|(address, connection)| {
            let activity = connection.get();
            let is_candidate = !connection.evicted.is_cancelled()
                && activity.is_evictable(now)
                && is_wanted(&activity);
            let is_within_share = !per_address.contains_key(address);
            is_candidate.then_some((is_within_share, activity.since, address, connection))
        });
        let mut candidates: Vec<_> = candidates.collect();
        candidates.sort_by_key(|(is_within_share, since, ..)| (*is_within_share, *since));
        candidates.truncate(count);
        for (_, _, address, connection) in &candidates {
            connection.evict();
            debug!(%address, "connection evicted");
        }
        self.evictions += candidates.len();
        self.warn_of_eviction(now);
    }

    /// At most one line a minute.
    fn warn_of_eviction(&mut self, now: Instant) {
        let is_due = self
            .warned_at
            .is_none_or(|at| now.duration_since(at) >= WARNING_INTERVAL);
        if is_due && self.evictions > 0 {
            self.warned_at = Some(now);
            warn!(
                evicted = std::mem::take(&mut self.evictions),
                open = self.open.len(),
                "too many HTTP clients or unread responses, connections closed"
            );
        }
    }
}

/// One client can use any address of its IPv6 network of 64 bits.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() & (u128::MAX << 64);
            Ipv6Addr::from_bits(network).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}
