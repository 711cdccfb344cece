//! Checks names and passwords. bcrypt takes up to seconds, so it runs on a thread of its own, for one request at a
//! time.

use std::collections::{BTreeMap, VecDeque};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bcrypt::HashParts;
use parking_lot::Mutex;
use ring::{
    hmac::{self, HMAC_SHA256},
    rand::SystemRandom,
};
use tokio::sync::{self, Semaphore};

use crate::base::worker::Worker;

/// Results that are remembered of each kind. Wrong passwords do not displace right ones.
const MAX_RESULTS: usize = 128;

/// Says what is wrong with a hash, and does not repeat it: it may be a password.
pub(super) fn check_hash(hash: &str) -> Result<(), String> {
    let parts: HashParts = hash.parse().map_err(|_| {
        "the value is not a bcrypt hash: use one of 60 characters that begins with $2a$, $2b$, $2x$ or $2y$, such as \
         from htpasswd -nB"
    })?;
    match parts.get_cost() {
        4..=31 => Ok(()),
        cost => Err(format!("the cost is {cost}: use one from 4 to 31")),
    }
}

/// The name and the password in an `Authorization` header. `None` unless it is `Basic` with both (RFC 7617).
pub(super) fn credentials(header: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = header.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = STANDARD.decode(encoded).ok()?;
    let mut parts = decoded.splitn(2, |byte| *byte == b':');
    let user = String::from_utf8(parts.next()?.to_vec()).ok()?;
    Some((user, parts.next()?.to_vec()))
}

#[derive(Debug)]
pub(super) struct Passwords {
    pub(super) worker: Worker,
    /// Held by the request whose password is being checked. The others wait in the order of their arrival.
    turn: sync::Mutex<()>,
    /// Keyed digests of a hash and a password, by whether it was accepted.
    results: Mutex<BTreeMap<bool, VecDeque<Vec<u8>>>>,
    key: hmac::Key,
}

impl Passwords {
    pub(super) fn new(worker: Worker) -> Result<Self, ring::error::Unspecified> {
        Ok(Self {
            worker,
            turn: sync::Mutex::default(),
            results: Mutex::default(),
            key: hmac::Key::generate(HMAC_SHA256, &SystemRandom::new())?,
        })
    }

    /// `None` if it cannot be decided now. An unknown name takes the time of the first known one. Of the requests of one
    /// address only one waits for the check, so that those of others are soon next.
    pub(super) async fn accepts(
        &self,
        users: &BTreeMap<String, String>,
        user: &str,
        password: Vec<u8>,
        check_turn: &Semaphore,
    ) -> Option<bool> {
        let known = users.get(user);
        let is_known = known.is_some();
        let hash = known.or_else(|| users.values().next())?.clone();
        // A hash has 60 bytes, so that no other parts have the same tag.
        let parts = [hash.as_bytes(), &[is_known.into()], &password].concat();
        let tag = hmac::sign(&self.key, &parts).as_ref().to_vec();
        if let Some(result) = self.known(&tag) {
            return Some(result);
        }
        let _turn_of_address = check_turn.acquire().await.ok();
        let _turn = self.turn.lock().await;
        // A request that waited before this one may have had the same credentials.
        if let Some(result) = self.known(&tag) {
            return Some(result);
        }
        let verify = move || bcrypt::verify(password, &hash).unwrap_or(false);
        let is_accepted = self.worker.run_while_awaited(verify).await? && is_known;
        let mut results = self.results.lock();
        let tags = results.entry(is_accepted).or_default();
        tags.truncate(MAX_RESULTS - 1);
        tags.push_front(tag);
        Some(is_accepted)
    }

    fn known(&self, tag: &Vec<u8>) -> Option<bool> {
        let results = self.results.lock();
        let mut results = results.iter();
        let known = results.find(|(_, tags)| tags.contains(tag));
        known.map(|(is_accepted, _)| *is_accepted)
    }
}
