//! What is kept of a batch in memory, and the name of its file, which says the same.

use super::Ticket;

/// No spool comes to this number by itself, and there is room for others after it.
const LAST: u64 = u64::MAX / 2;

/// A batch in the spool.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) ticket: Ticket,
    pub(super) sequence: u64,
    pub(super) at: i64,
    pub(super) spans: u32,
    pub(super) bytes: u64,
    /// The content, where the disk does not have it.
    pub(super) memory: Option<Box<[u8]>>,
    /// It was said that it cannot be read for now.
    pub(super) is_reported: bool,
}

impl Entry {
    pub(super) fn name(&self) -> String {
        format!("{:020}-{}-{}.json", self.sequence, self.at, self.spans)
    }

    /// The numbers in a name that [`Entry::name`] made.
    pub(super) fn parse(name: &str, bytes: u64, ticket: Ticket) -> Option<Self> {
        let mut numbers = name.strip_suffix(".json")?.split('-');
        let entry = Self {
            ticket,
            sequence: numbers.next()?.parse().ok()?,
            at: numbers.next()?.parse().ok()?,
            spans: numbers.next()?.parse().ok()?,
            bytes,
            memory: None,
            is_reported: false,
        };
        let is_ours = numbers.next().is_none() && entry.name() == name;
        (is_ours && entry.sequence <= LAST).then_some(entry)
    }
}
