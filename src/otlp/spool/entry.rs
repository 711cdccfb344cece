//! What is kept in memory of a stored batch, and its file name, which contains the same values.

use std::time::Duration;

use crate::time::{Moment, Timestamp};

/// Files with larger numbers are foreign: the sequence must not overflow.
const MAX_SEQUENCE: u64 = u64::MAX / 2;

/// Identifies a batch within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchId(pub(super) u64);

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: BatchId,
    pub(super) sequence: u64,
    /// Unix time in seconds.
    pub(super) appended_at: i64,
    /// `None` until the limits look at a batch of an earlier process.
    pub(super) age: Option<Age>,
    pub(super) records: u32,
    pub(super) bytes: u64,
    /// The encoded batch, while it is not on disk.
    pub(super) memory: Option<Box<[u8]>>,
    /// By the monotonic clock, while its next attempt is deferred.
    pub(super) deferred_until: Option<Duration>,
    /// A read error was logged.
    pub(super) is_reported: bool,
}

/// By the monotonic clock, so that a step of the wall clock does not change it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Age {
    pub(super) at_start: Duration,
    pub(super) start: Duration,
}

impl Age {
    /// Of a batch that is appended now.
    pub(super) fn zero(now: Moment) -> Self {
        Self {
            at_start: Duration::ZERO,
            start: now.monotonic,
        }
    }

    /// Of a batch of an earlier process. Its age until now is known by the wall clock alone, and is limited to `max`.
    pub(super) fn of_restored(appended_at: i64, max: Duration, now: Moment) -> Self {
        let appended_at = Timestamp::from_unix_seconds(appended_at).unwrap_or(now.wall);
        Self {
            at_start: now.wall.saturating_since(appended_at).min(max),
            start: now.monotonic,
        }
    }

    pub(super) fn at(self, now: Moment) -> Duration {
        self.at_start
            .saturating_add(now.monotonic.saturating_sub(self.start))
    }
}

impl Entry {
    pub(super) fn file_name(&self) -> String {
        let Self {
            sequence,
            appended_at,
            records,
            ..
        } = self;
        format!("{sequence:020}-{appended_at}-{records}.json")
    }

    /// `None` unless the name is one that [`Entry::file_name`] makes.
    pub(super) fn parse(name: &str, bytes: u64, id: BatchId) -> Option<Self> {
        let mut numbers = name.strip_suffix(".json")?.split('-');
        let entry = Self {
            id,
            sequence: numbers.next()?.parse().ok()?,
            appended_at: numbers.next()?.parse().ok()?,
            records: numbers.next()?.parse().ok()?,
            bytes,
            age: None,
            memory: None,
            deferred_until: None,
            is_reported: false,
        };
        let is_ours = numbers.next().is_none() && entry.file_name() == name;
        (is_ours && entry.sequence <= MAX_SEQUENCE).then_some(entry)
    }
}
