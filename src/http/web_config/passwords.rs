//! Checks names and passwords. bcrypt takes up to seconds, so it runs on a thread of its own, for one request at a
//! time.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    hmac::{self, HMAC_SHA256},
    rand::SystemRandom,
};
use tokio::sync;

use super::password::PasswordHash;
use crate::base::worker::Worker;

/// Results that are remembered. Wrong passwords do not displace right ones.
const MAX_ACCEPTED: usize = 1_024;
const MAX_REJECTED: usize = 128;

/// What a request has in its `Authorization` header.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    user: Vec<u8>,
    password: Vec<u8>,
}

impl Credentials {
    /// `None` unless it is `Basic` with a name and a password (RFC 7617).
    pub(super) fn parse(header: &[u8]) -> Option<Self> {
        let (scheme, encoded) = header.split_at_checked("Basic ".len())?;
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return None;
        }
        let decoded = STANDARD.decode(encoded).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let (user, password) = decoded.split_at_checked(colon)?;
        Some(Self {
            user: user.to_vec(),
            password: password.get(1..)?.to_vec(),
        })
    }
}

#[derive(Debug)]
pub(super) struct Passwords {
    worker: Worker,
    /// Held by the request whose password is being checked. The others wait in the order of their arrival.
    turn: sync::Mutex<()>,
    results: Mutex<Results>,
    key: hmac::Key,
    /// Selects the hash that an unknown name is compared with.
    decoy: RandomState,
}

/// A keyed digest of a name, the hash in the settings and a password.
type Tag = [u8; 32];

#[derive(Debug, Default)]
struct Results {
    accepted: VecDeque<Tag>,
    rejected: VecDeque<Tag>,
}

impl Passwords {
    /// # Errors
    /// Without a source of random numbers.
    pub(super) fn new(worker: Worker) -> Result<Self, ring::error::Unspecified> {
        Ok(Self {
            worker,
            turn: sync::Mutex::default(),
            results: Mutex::default(),
            key: hmac::Key::generate(HMAC_SHA256, &SystemRandom::new())?,
            decoy: RandomState::new(),
        })
    }

    /// `None` if it cannot be decided now. An unknown name takes the time of a known one.
    pub(super) async fn accepts(
        &self,
        users: &BTreeMap<String, PasswordHash>,
        credentials: &Credentials,
    ) -> Option<bool> {
        let (hash, is_known) = self.hash(users, &credentials.user)?;
        let tag = self.tag(credentials, hash, is_known);
        if let Some(result) = self.results().get(&tag) {
            return Some(result);
        }
        let _turn = self.turn.lock().await;
        // A request that waited before this one may have had the same credentials.
        if let Some(result) = self.results().get(&tag) {
            return Some(result);
        }
        let (hash, password) = (hash.clone(), credentials.password.clone());
        let verified = self
            .worker
            .run_while_awaited(move || hash.verify(&password));
        let is_accepted = verified.await? && is_known;
        self.results().insert(tag, is_accepted);
        Some(is_accepted)
    }

    /// The hash of a user; for an unknown name, always that of the same other user.
    fn hash<'a>(
        &self,
        users: &'a BTreeMap<String, PasswordHash>,
        user: &[u8],
    ) -> Option<(&'a PasswordHash, bool)> {
        let known = str::from_utf8(user).ok().and_then(|user| users.get(user));
        if let Some(hash) = known {
            return Some((hash, true));
        }
        let number = self.decoy.hash_one(user);
        let at = number.checked_rem(users.len() as u64)?;
        let hash = users.values().nth(usize::try_from(at).ok()?)?;
        Some((hash, false))
    }

    /// The parts have their lengths before them, so that no other parts have the same tag.
    fn tag(&self, credentials: &Credentials, hash: &PasswordHash, is_known: bool) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        let Credentials { user, password } = credentials;
        for part in [
            user,
            hash.as_str().as_bytes(),
            password,
            &[u8::from(is_known)],
        ] {
            context.update(&part.len().to_le_bytes());
            context.update(part);
        }
        let mut tag = Tag::default();
        tag.iter_mut()
            .zip(context.sign().as_ref())
            .for_each(|(to, from)| *to = *from);
        tag
    }

    #[cfg(test)]
    pub(super) fn worker(&self) -> &Worker {
        &self.worker
    }

    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Results {
    fn get(&self, tag: &Tag) -> Option<bool> {
        if self.accepted.contains(tag) {
            return Some(true);
        }
        self.rejected.contains(tag).then_some(false)
    }

    /// The oldest results are forgotten.
    fn insert(&mut self, tag: Tag, is_accepted: bool) {
        let (tags, max) = if is_accepted {
            (&mut self.accepted, MAX_ACCEPTED)
        } else {
            (&mut self.rejected, MAX_REJECTED)
        };
        if tags.len() >= max {
            tags.pop_front();
        }
        tags.push_back(tag);
    }
}
