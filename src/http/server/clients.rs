//! The connections and the large responses of each client address.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tracing::{debug, warn};

/// Large responses that are made or sent at a time.
const MAX_LARGE_RESPONSES: usize = 8;
/// An address may have the number of unused connections, divided by this one: a quarter of all if no other address has
/// any. So even a dozen addresses that take all they may leave some for others.
const UNUSED_SHARE_DIVISOR: usize = 3;
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct Clients {
    max_connections: usize,
    large_responses: Arc<Semaphore>,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    /// Their number, and the turns of the address.
    addresses: BTreeMap<IpAddr, (usize, Turns)>,
    /// Since the last warning.
    refused: usize,
    warned_at: Option<Instant>,
}

/// What the connections of an address do one at a time.
#[derive(Debug, Clone)]
struct Turns {
    response: Arc<Semaphore>,
    check: Arc<Semaphore>,
}

#[derive(Debug)]
pub(super) struct Client {
    clients: Arc<Clients>,
    address: IpAddr,
    turns: Turns,
}

/// Allows one large response, of the address and of all.
pub(super) type Turn = [OwnedSemaphorePermit; 2];

impl Clients {
    pub(super) fn new(max_connections: usize) -> Self {
        Self {
            max_connections,
            large_responses: Arc::new(Semaphore::new(MAX_LARGE_RESPONSES)),
            open: Mutex::default(),
        }
    }

    /// `None` if this address, or all of them, have too many connections.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Client> {
        let address = network(peer);
        let mut open = self.open.lock();
        let count: usize = open.addresses.values().map(|(count, _)| count).sum();
        let unused = self.max_connections.saturating_sub(count);
        let own = open.addresses.get(&address).map_or(0, |(count, _)| *count);
        if own * UNUSED_SHARE_DIVISOR >= unused {
            open.refuse(address, count);
            return None;
        }
        let turn = || Arc::new(Semaphore::new(1));
        let new = || {
            let (response, check) = (turn(), turn());
            (0, Turns { response, check })
        };
        let (count, turns) = open.addresses.entry(address).or_insert_with(new);
        *count += 1;
        Some(Client {
            clients: Arc::clone(self),
            address,
            turns: turns.clone(),
        })
    }
}

impl OpenConnections {
    fn refuse(&mut self, address: IpAddr, open: usize) {
        debug!(%address, "connection refused");
        self.refused += 1;
        let warned_at = self.warned_at;
        if warned_at.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
            let refused = std::mem::take(&mut self.refused);
            warn!(%address, refused, open, "too many HTTP connections, new ones are closed");
            self.warned_at = Some(Instant::now());
        }
    }
}

impl Client {
    /// Waits until the address, and all addresses together, may have another large response. The semaphores are never
    /// closed, so it is not `None`.
    pub(super) async fn turn(&self) -> Option<Turn> {
        // In this order, an address waits with one request at most for the turn of all.
        let of_address = Arc::clone(&self.turns.response)
            .acquire_owned()
            .await
            .ok()?;
        let all = Arc::clone(&self.clients.large_responses);
        Some([of_address, all.acquire_owned().await.ok()?])
    }

    /// The turn of the address for what takes long before a response, such as the check of a password.
    pub(super) fn check_turn(&self) -> &Semaphore {
        &self.turns.check
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut open = self.clients.open.lock();
        if let Some((count, _)) = open.addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.addresses.remove(&self.address);
            }
        }
    }
}

/// One client can use any address of its IPv6 network of 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address @ IpAddr::V4(_) => address,
    }
}
