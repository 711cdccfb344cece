//! How far the journal was sent for one signal, and what goes into the next request. Pure.
//!
//! Every entry with spans, or log records, is accepted by the receiver or counted once as dropped. Requests have the
//! entries in order, until one fails: an entry that may have caused a failure is sent alone, after those that never
//! failed, so that it keeps nothing else from being sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    core::{
        journal::{Entry, Journal},
        lifecycle::SavedCursor,
    },
    outputs::output_counters::DropReason,
};

/// Bytes of the entries of one request, as lines of JSON.
const MAX_REQUEST_BYTES: usize = 256 << 10;
/// From this number of consecutive failures on, the content may be the cause, whatever the receiver answers.
const MAX_FAILURES_IN_ORDER: u32 = 8;
/// An entry that fails so often while others are accepted is dropped.
const MAX_PROVEN_FAILURES: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestResult {
    Accepted,
    /// It must not be sent again.
    Refused(DropReason),
    /// Another request may be accepted.
    MayBeContent,
    Unavailable,
}

/// An entry that may have caused a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failed {
    /// The request that failed last, counted from the first.
    request: u64,
    /// Failures before which another entry was accepted since the one before.
    proven: u32,
}

#[derive(Debug, Clone)]
pub struct Cursor {
    pub journal: Arc<Journal>,
    count: fn(&Entry) -> u64,
    /// The entries that are accepted, dropped, or without records.
    done: SavedCursor,
    failed: BTreeMap<u64, Failed>,
    in_flight: Vec<Arc<Entry>>,
    requests: u64,
    /// The last request that was accepted.
    accepted: u64,
    consecutive_failures: u32,
}

impl Cursor {
    /// A signal that was not sent before has only what this process adds.
    pub fn new(
        journal: &Arc<Journal>,
        saved: Option<&SavedCursor>,
        count: fn(&Entry) -> u64,
    ) -> Self {
        let before = journal.first.saturating_sub(1);
        let ahead = saved.map(|saved| saved.ahead.clone());
        Self {
            journal: Arc::clone(journal),
            count,
            done: SavedCursor {
                sent: saved.map_or(before, |saved| saved.sent.min(before)),
                ahead: ahead.unwrap_or_default(),
            },
            failed: BTreeMap::new(),
            in_flight: Vec::new(),
            requests: 0,
            accepted: 0,
            consecutive_failures: 0,
        }
    }

    /// How far this journal was sent; from its beginning on if it is another one.
    pub fn saved(&self, journal: &Journal) -> SavedCursor {
        if self.journal.id == journal.id {
            self.done.clone()
        } else {
            SavedCursor::default()
        }
    }

    /// The number of spans, or log records, of an entry.
    pub fn count(&self, entry: &Entry) -> u64 {
        (self.count)(entry)
    }

    /// The spans, or log records, of the entries that are not done.
    pub fn unsent(&self) -> u64 {
        let kept = self.journal.after(self.done.sent);
        let fallen_off = self.in_flight.iter().filter(|it| !self.is_kept(it));
        self.records(kept.chain(fallen_off).filter(|it| !self.is_done(it)))
    }

    /// The numbers that a restored journal lost before they were sent.
    pub fn lost(&self) -> u64 {
        let journal = &self.journal;
        let after = self.done.sent.max(journal.bounded);
        let entries = journal.after(after).map(|entry| entry.number);
        let read = entries.take_while(|number| *number < journal.first);
        let ahead = self.done.ahead.range(after.saturating_add(1)..).copied();
        let known: BTreeSet<_> = read.chain(ahead).collect();
        let all = journal.first.saturating_sub(1).saturating_sub(after);
        all.saturating_sub(known.len() as u64)
    }

    /// The journal has changed, and `dropped` have fallen off it. Returns the number of records of those that were
    /// neither sent nor are in flight. Another journal begins anew: the one before was another VM's.
    pub fn update(&mut self, journal: &Arc<Journal>, dropped: &[Arc<Entry>]) -> u64 {
        if self.journal.id != journal.id {
            *self = Self::new(journal, None, self.count);
            return 0;
        }
        let lost = dropped.iter().filter(|entry| {
            let is_in_flight = self.in_flight.iter().any(|it| it.number == entry.number);
            entry.number > self.done.sent && !is_in_flight && !self.is_done(entry)
        });
        let lost = self.records(lost);
        self.journal = Arc::clone(journal);
        self.advance();
        lost
    }

    /// The entries of the next request, which are in flight until [`Self::apply`]. None if nothing is to be sent.
    pub fn next_entries(&mut self) -> Vec<Arc<Entry>> {
        self.advance();
        let journal = &self.journal;
        let mut bytes = 0;
        let untried = journal.after(self.done.sent).filter(|entry| {
            journal.may_send(entry)
                && !self.failed.contains_key(&entry.number)
                && !self.is_done(entry)
        });
        let fitting = untried.take_while(|entry| {
            let is_first = bytes == 0;
            bytes += entry.bytes;
            is_first || bytes <= MAX_REQUEST_BYTES
        });
        self.in_flight = fitting.cloned().collect();
        while self.in_flight.is_empty() {
            let failed = self.failed.iter().min_by_key(|(_, failed)| failed.request);
            let Some((&number, _)) = failed else {
                break;
            };
            match journal.get(number) {
                Some(entry) => self.in_flight.push(Arc::clone(entry)),
                None => drop(self.failed.remove(&number)),
            }
        }
        self.in_flight.clone()
    }

    /// The request of the entries in flight ended. Returns those that are not sent again, each with the reason.
    pub fn apply(&mut self, result: RequestResult) -> Vec<(Arc<Entry>, DropReason)> {
        use RequestResult::{Accepted, MayBeContent, Refused, Unavailable};
        self.requests += 1;
        self.consecutive_failures = match result {
            Accepted | Refused(_) => 0,
            MayBeContent | Unavailable => self.consecutive_failures.saturating_add(1),
        };
        let is_in_order =
            result == Unavailable && self.consecutive_failures < MAX_FAILURES_IN_ORDER;
        let in_flight = std::mem::take(&mut self.in_flight);
        let is_single = in_flight.len() == 1;
        let mut dropped = Vec::new();
        for entry in in_flight {
            let reason = match result {
                Accepted => None,
                Refused(reason) if is_single => Some(reason),
                _ if !self.is_kept(&entry) => Some(DropReason::SpoolFull),
                _ if is_in_order || !self.fail(entry.number) => continue,
                _ => Some(DropReason::Rejected),
            };
            self.failed.remove(&entry.number);
            self.done.ahead.insert(entry.number);
            dropped.extend(reason.map(|reason| (entry, reason)));
        }
        if result == Accepted {
            self.accepted = self.requests;
        }
        self.advance();
        dropped
    }

    /// Returns whether the entry has failed so often that it must be the cause.
    fn fail(&mut self, number: u64) -> bool {
        let (request, accepted) = (self.requests, self.accepted);
        let failed = self.failed.entry(number);
        let failed = failed.or_insert(Failed { request, proven: 0 });
        failed.proven += u32::from(accepted > failed.request);
        failed.request = request;
        failed.proven >= MAX_PROVEN_FAILURES
    }

    /// Up to the first entry that is not done. What the journal does not have any more is.
    fn advance(&mut self) {
        let mut entries = self.journal.after(self.done.sent);
        let first = entries.find(|entry| !self.is_done(entry));
        self.done.sent = first.map_or(self.journal.newest, |entry| entry.number.saturating_sub(1));
        self.done.ahead = self.done.ahead.split_off(&self.done.sent.saturating_add(1));
    }

    fn is_done(&self, entry: &Entry) -> bool {
        self.done.ahead.contains(&entry.number) || self.count(entry) == 0
    }

    fn is_kept(&self, entry: &Entry) -> bool {
        self.journal.get(entry.number).is_some()
    }

    fn records<'a>(&self, entries: impl IntoIterator<Item = &'a Arc<Entry>>) -> u64 {
        let counts = entries.into_iter().map(|entry| self.count(entry));
        counts.sum()
    }
}

#[cfg(test)]
mod tests;
