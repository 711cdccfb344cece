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

use super::activity::{Activity, ConnectionActivity, ConnectionPhase, ResponseBody};

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
    /// Bytes of all bodies that are being sent; one body may be larger.
    max_response_bytes: usize,
    connections: Mutex<Connections>,
    /// Notified when a connection has ended.
    released: Notify,
    /// Notified when a response has been sent or dropped.
    response_ended: Arc<Notify>,
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
        self.activity.enter(ConnectionPhase::Aborted, None);
    }
}

impl Slot {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

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
            .until(&slots.response_ended, |connections| {
                connections.has_response_capacity(slots.max_response_bytes, slots.max_connections)
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
            response_ended: Arc::default(),
            response_queue: sync::Mutex::default(),
        }
    }

    /// A slot for a connection from this address. Evicts connections until there is one.
    pub(super) async fn acquire(self: &Arc<Self>, peer: SocketAddr) -> Slot {
        let address = group(peer.ip());
        let (id, activity) = self
            .until(&self.released, |connections| {
                if connections.open.len() < self.max_connections {
                    let activity = ConnectionActivity::new(Arc::clone(&self.response_ended));
                    return Some((connections.add(address, activity.clone()), activity));
                }
                // Several at a time: a search for each one would cost much when many clients reopen at once.
                let mut places = 0..(self.max_connections / EVICTED_SHARE_DIVISOR).max(1);
                connections.evict(self.max_connections, |_| places.next().is_some());
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
                let mut places = 0..1;
                connections.evict(self.max_connections, |_| places.next().is_some());
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

    /// `Some` if the bodies that are being sent are below the limit. Else evicts as many connections as it takes, of
    /// those that do not read. The memory of a body is free when no connection sends it any more.
    fn has_response_capacity(&mut self, max_bytes: usize, max_connections: usize) -> Option<()> {
        let mut senders: BTreeMap<ResponseBody, usize> = BTreeMap::new();
        for connection in self.open.values() {
            if let Some(body) = connection.activity.get().response {
                *senders.entry(body).or_default() += 1;
            }
        }
        let mut bytes: usize = senders.keys().map(|body| body.bytes).sum();
        if bytes < max_bytes {
            return Some(());
        }
        self.evict(max_connections, |activity| {
            let Some(body) = activity.response.filter(|_| bytes >= max_bytes) else {
                return false;
            };
            if let Some(count) = senders.get_mut(&body) {
                *count -= 1;
                bytes -= if *count == 0 { body.bytes } else { 0 };
            }
            true
        });
        None
    }

    /// Offers connections to `is_wanted`, those first that have been without progress for the longest time, and ends
    /// those that it accepts. Connections of an address with more than its share are offered before all others.
    /// Without effect while evicted ones are open.
    fn evict(&mut self, max_connections: usize, mut is_wanted: impl FnMut(&Activity) -> bool) {
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
            let task = connection.task.as_ref();
            let task = task.filter(|_| activity.is_evictable(now))?;
            let is_within_share = !above_share.contains(&connection.address);
            Some((is_within_share, activity, *id, connection, task))
        });
        let mut candidates: Vec<_> = candidates.collect();
        candidates.sort_unstable_by_key(|(is_within_share, activity, ..)| {
            (*is_within_share, activity.since)
        });
        for (_, activity, id, connection, task) in candidates {
            if !is_wanted(&activity) {
                continue;
            }
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
