//! The slots for connections, and which connection is evicted when there are too few of them.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{self, Notify},
    task::AbortHandle,
    time::{Instant, sleep},
};
use tracing::{debug, warn};

use super::activity::{ConnectionActivity, ConnectionPhase, ResponsesInFlight};

/// How often a waiting connection or response looks for a connection that can be evicted by now.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);
/// An address with more than the slots divided by this number loses its connections before others do.
const ADDRESS_SHARE_DIVISOR: usize = 4;
/// When a connection waits, the slots divided by this number are freed.
const EVICTED_SHARE_DIVISOR: usize = 32;
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

/// The open connections of one server.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    max_connections: usize,
    /// Bytes of all responses that are being sent; one response may be larger.
    max_response_bytes: usize,
    connections: Mutex<Connections>,
    /// Notified when a connection has ended.
    released: Notify,
    in_flight: Arc<ResponsesInFlight>,
    /// Held by the response that has waited longest. Only this one evicts.
    response_queue: sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Connections {
    next_id: u64,
    open: BTreeMap<u64, OpenConnection>,
    per_address: BTreeMap<IpAddr, usize>,
    /// The connections that were evicted last; they may still be open.
    evicted: Vec<u64>,
    /// Since the last warning.
    evictions: usize,
    warned_at: Option<Instant>,
}

#[derive(Debug)]
struct OpenConnection {
    address: IpAddr,
    activity: ConnectionActivity,
    /// Set once its task runs.
    task: Option<AbortHandle>,
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
        self.slots.lock().remove(self.id);
        self.slots.released.notify_waiters();
        self.activity.enter(ConnectionPhase::Aborted, 0);
    }
}

impl Slot {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Waits until the responses in flight are below the limit. Evicts those that are not read.
    pub(super) async fn wait_for_response_capacity(&self) {
        let slots = &self.slots;
        let _first = slots.response_queue.lock().await;
        slots
            .until(&slots.in_flight.response_ended, |connections| {
                if slots.in_flight.bytes() < slots.max_response_bytes {
                    return Some(());
                }
                connections.evict(1, slots.max_connections, |phase| {
                    phase == ConnectionPhase::Sending
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
            in_flight: Arc::default(),
            response_queue: sync::Mutex::default(),
        }
    }

    /// A slot for a connection from this address. Evicts connections until there is one.
    pub(super) async fn acquire(self: &Arc<Self>, peer: SocketAddr) -> Slot {
        let address = group(peer.ip());
        let (id, activity) = self
            .until(&self.released, |connections| {
                if connections.open.len() < self.max_connections {
                    let activity = ConnectionActivity::new(Arc::clone(&self.in_flight));
                    return Some((connections.add(address, activity.clone()), activity));
                }
                // Several at a time: a search for each one would cost much when many clients reopen at once.
                let count = self.max_connections / EVICTED_SHARE_DIVISOR;
                connections.evict(count.max(1), self.max_connections, |_| true);
                None
            })
            .await;
        Slot {
            slots: Arc::clone(self),
            id,
            activity,
        }
    }

    /// Makes the connection evictable.
    pub(super) fn set_task(&self, id: u64, task: AbortHandle) {
        if let Some(connection) = self.lock().open.get_mut(&id) {
            connection.task = Some(task);
        }
    }

    /// Evicts one connection for its file descriptor. Waits until a connection has ended, at most [`RECHECK_INTERVAL`].
    pub(super) async fn evict_one(&self) {
        let mut is_first = true;
        self.until(&self.released, |connections| {
            if std::mem::take(&mut is_first) {
                connections.evict(1, self.max_connections, |_| true);
                return None;
            }
            Some(())
        })
        .await;
    }

    /// Repeats `attempt` after each notification and at least every [`RECHECK_INTERVAL`].
    async fn until<T>(
        &self,
        notify: &Notify,
        mut attempt: impl FnMut(&mut Connections) -> Option<T>,
    ) -> T {
        loop {
            let mut notified = pin!(notify.notified());
            notified.as_mut().enable();
            if let Some(found) = attempt(&mut self.lock()) {
                return found;
            }
            tokio::select! {
                () = notified => {}
                () = sleep(RECHECK_INTERVAL) => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn add(&mut self, address: IpAddr, activity: ConnectionActivity) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let connection = OpenConnection {
            address,
            activity,
            task: None,
        };
        self.open.insert(id, connection);
        *self.per_address.entry(address).or_default() += 1;
        id
    }

    fn remove(&mut self, id: u64) {
        let Some(connection) = self.open.remove(&id) else {
            return;
        };
        if let Some(count) = self.per_address.get_mut(&connection.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&connection.address);
            }
        }
    }

    /// Ends the `count` connections of a matching phase that have been without progress for the longest time.
    /// Connections of an address with more than its share come first. Without effect while evicted ones are open.
    fn evict(
        &mut self,
        count: usize,
        max_connections: usize,
        is_match: impl Fn(ConnectionPhase) -> bool,
    ) {
        self.evicted.retain(|id| self.open.contains_key(id));
        if !self.evicted.is_empty() {
            return;
        }
        let now = Instant::now();
        let above_share: Vec<IpAddr> = self
            .per_address
            .iter()
            .filter(|(_, count)| **count > max_connections / ADDRESS_SHARE_DIVISOR)
            .map(|(address, _)| *address)
            .collect();
        let candidates = self.open.iter().filter_map(|(id, connection)| {
            let activity = connection.activity.get();
            let is_candidate = activity.is_evictable(now) && is_match(activity.phase);
            let task = connection.task.as_ref().filter(|_| is_candidate)?;
            let is_within_share = !above_share.contains(&connection.address);
            Some((is_within_share, activity.since, *id, connection, task))
        });
        let mut candidates: Vec<_> = candidates.collect();
        candidates.sort_unstable_by_key(|(is_within_share, since, ..)| (*is_within_share, *since));
        for (_, _, id, connection, task) in candidates.into_iter().take(count) {
            connection.activity.abort_response();
            task.abort();
            debug!(address = %connection.address, "connection evicted");
            self.evicted.push(id);
        }
        self.warn_of_eviction(now);
    }

    /// At most one line a minute.
    fn warn_of_eviction(&mut self, now: Instant) {
        self.evictions += self.evicted.len();
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
