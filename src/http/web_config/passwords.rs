//! Checks names and passwords. bcrypt takes up to seconds, so it runs on a thread of its own, for one request at a
//! time.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::RangeInclusive,
    sync::{Mutex, MutexGuard, PoisonError},
};

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use ring::{
    hmac::{self, HMAC_SHA256},
    rand::SystemRandom,
};
use serde::Deserialize;
use tokio::sync;

use crate::base::worker::Worker;

/// bcrypt's own base64. Some programs set the bits of the last character that belong to no byte.
const BCRYPT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::BCRYPT,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);
/// All variants differ in the bugs of old implementations, none of which is repeated here.
const PREFIXES: [&str; 4] = ["$2a$", "$2b$", "$2x$", "$2y$"];
const COSTS: RangeInclusive<u32> = 4..=31;
const SALT_CHARS: usize = 22;
const LENGTH: usize = 60;
/// Further bytes of a password have no effect.
const MAX_PASSWORD_BYTES: usize = 72;
/// Results that are remembered. Wrong passwords do not displace right ones.
const MAX_ACCEPTED: usize = 1_024;
const MAX_REJECTED: usize = 128;

/// A hash such as `$2y$10$…`.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PasswordHash {
    /// As written.
    pub(super) text: String,
    cost: u32,
    salt: [u8; 16],
    /// The last byte of the output of bcrypt is not part of a hash.
    digest: [u8; 23],
}

impl TryFrom<String> for PasswordHash {
    type Error = String;

    /// The error does not contain the text, which may be a password.
    fn try_from(text: String) -> Result<Self, String> {
        let malformed = || {
            "the value is not a bcrypt hash: use one of 60 characters that begins with $2a$, $2b$, $2x$ or $2y$, such as from htpasswd -nB"
                .to_owned()
        };
        let parts = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix));
        let parts = parts.filter(|_| text.len() == LENGTH);
        let (cost, rest) = parts
            .and_then(|parts| parts.split_once('$'))
            .ok_or_else(malformed)?;
        let is_number = cost.len() == 2 && cost.bytes().all(|byte| byte.is_ascii_digit());
        let number = cost.parse().ok().filter(|_| is_number);
        let cost: u32 = number.ok_or_else(malformed)?;
        if !COSTS.contains(&cost) {
            return Err(format!("the cost is {cost}: use one from 4 to 31"));
        }
        let (salt, digest) = rest.split_at_checked(SALT_CHARS).ok_or_else(malformed)?;
        Ok(Self {
            cost,
            salt: decode(salt).ok_or_else(malformed)?,
            digest: decode(digest).ok_or_else(malformed)?,
            text,
        })
    }
}

impl PasswordHash {
    /// Takes 2^cost steps, which are about 80 ms at a cost of 10.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let mut key: Vec<u8> = password.iter().copied().chain([0]).collect();
        key.truncate(MAX_PASSWORD_BYTES);
        let output = bcrypt::bcrypt(self.cost, self.salt, &key);
        // All bytes are compared, so that the time does not tell how many are equal.
        let differing = self.digest.iter().zip(output);
        differing.fold(0, |bits, (left, right)| bits | (left ^ right)) == 0
    }
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    BCRYPT_BASE64.decode(text).ok()?.try_into().ok()
}

/// What a request has in its `Authorization` header.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct BasicCredentials {
    user: Vec<u8>,
    password: Vec<u8>,
}

impl BasicCredentials {
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
}

/// A keyed digest of a name, the hash in the settings and a password.
type Tag = Vec<u8>;

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
        })
    }

    /// `None` if it cannot be decided now. An unknown name takes the time of the first known one.
    pub(super) async fn accepts(
        &self,
        users: &BTreeMap<String, PasswordHash>,
        credentials: &BasicCredentials,
    ) -> Option<bool> {
        let user = str::from_utf8(&credentials.user).ok();
        let known = user.and_then(|user| users.get(user));
        let is_known = known.is_some();
        let hash = known.or_else(|| users.values().next())?;
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

    /// The parts have their lengths before them, so that no other parts have the same tag.
    fn tag(&self, credentials: &BasicCredentials, hash: &PasswordHash, is_known: bool) -> Tag {
        let mut context = hmac::Context::with_key(&self.key);
        let BasicCredentials { user, password } = credentials;
        for part in [user, hash.text.as_bytes(), password, &[is_known.into()]] {
            context.update(&part.len().to_le_bytes());
            context.update(part);
        }
        context.sign().as_ref().to_vec()
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
