//! The spool's dealings with its directory.

use std::{io, path::Path};

use tracing::{info, warn};

use super::{Spool, entry::Entry};
use crate::outbound::file::{self, DRAFT_SUFFIX};

/// Files that could not be read and are kept for somebody to look at.
pub(super) const MAX_SET_ASIDE: usize = 16;
pub(super) const ASIDE: &str = ".unreadable";

impl Spool {
    /// Takes over what earlier processes left, once the directory can be used.
    pub(super) fn take_over(&mut self) {
        let Some(directory) = self.directory.clone().filter(|_| !self.is_listed) else {
            return;
        };
        let waited = self.counts.spooled;
        let listed = self.list(&directory);
        self.note(listed.map(|()| true));
        let spans = self.counts.spooled.saturating_sub(waited);
        if spans > 0 {
            info!(spans, "spans of an earlier run wait in the spool");
        }
    }

    /// Batches that wait in memory are younger than all that is in the directory.
    fn list(&mut self, directory: &Path) -> io::Result<()> {
        self.files.make_directory(directory)?;
        let mut found = Vec::new();
        for (name, bytes) in self.files.list(directory)? {
            let ticket = self.ticket();
            if name.ends_with(&format!(".json{DRAFT_SUFFIX}")) {
                self.remove(directory, name);
            } else if let Some(entry) = Entry::parse(&name, bytes, ticket) {
                found.push(entry);
            }
        }
        found.sort_by_key(|entry| entry.sequence);
        let newest = found.last().map_or(0, |entry| entry.sequence);
        let spans: u64 = found.iter().map(|entry| u64::from(entry.spans)).sum();
        for (sequence, mut entry) in (newest + 1..).zip(std::mem::take(&mut self.entries)) {
            entry.sequence = sequence;
            found.push(entry);
        }
        self.next_sequence = found.last().map_or(0, |entry| entry.sequence) + 1;
        self.entries = found.into();
        self.counts.spooled += spans;
        self.is_listed = true;
        Ok(())
    }

    /// Brings a batch to disk; false without a directory.
    pub(super) fn store(&mut self, entry: &Entry, content: &[u8]) -> io::Result<bool> {
        // Before the directory was read, the name might be that of another batch.
        let Some(directory) = self.directory.clone().filter(|_| self.is_listed) else {
            return Ok(false);
        };
        let path = directory.join(entry.name());
        let written = match file::replace(&mut *self.files, &path, content) {
            // Somebody removed the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.files.make_directory(&directory)?;
                file::replace(&mut *self.files, &path, content)
            }
            written => written,
        };
        written.map(|()| true)
    }

    /// Takes the outcome of a write: counts and reports trouble when it begins and when it ends.
    pub(super) fn note(&mut self, outcome: io::Result<bool>) -> bool {
        match outcome {
            Ok(is_stored) => {
                if is_stored && self.trouble.take().is_some() {
                    info!("the spool can be written again");
                }
                is_stored
            }
            Err(error) => {
                self.counts.write_failures += 1;
                if self.trouble.replace(error.kind()) != Some(error.kind()) {
                    warn!(
                        %error,
                        directory = self.directory.as_ref().map(|path| path.display().to_string()),
                        "the spool cannot be written: unsent spans wait in memory and would not survive a restart"
                    );
                }
                false
            }
        }
    }

    /// What cannot be removed now is tried again later; should this process end before, it is sent once more.
    pub(super) fn remove(&mut self, directory: &Path, name: String) {
        match self.files.remove(&directory.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.note(Err(error));
                self.leftovers.push(name);
            }
            Ok(()) => {
                if let Err(error) = self.files.sync_directory(directory) {
                    self.note(Err(error));
                }
            }
        }
    }

    /// Under another name, and not more of them than somebody would look at.
    pub(super) fn set_aside(&mut self, name: &str) {
        let Some(directory) = self.directory.clone() else {
            return;
        };
        let renamed = self
            .files
            .rename(
                &directory.join(name),
                &directory.join(format!("{name}{ASIDE}")),
            )
            .and_then(|()| self.files.list(&directory));
        let Ok(listed) = renamed else {
            return;
        };
        let mut aside: Vec<_> = listed
            .into_iter()
            .map(|(name, _)| name)
            .filter(|name| name.ends_with(ASIDE))
            .collect();
        aside.sort_unstable();
        let surplus = aside.len().saturating_sub(MAX_SET_ASIDE);
        for name in aside.into_iter().take(surplus) {
            self.remove(&directory, name);
        }
    }
}
