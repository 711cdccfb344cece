//! The directory of the spool.

use std::{io, path::Path};

use tracing::{info, warn};

use super::{Spool, entry::Entry};
use crate::{
    outbound::file::{self, DRAFT_SUFFIX},
    snapshot::DropReason,
};

/// Unreadable files that are kept for inspection.
pub(super) const MAX_SET_ASIDE: usize = 16;
pub(super) const ASIDE: &str = ".unreadable";

impl Spool {
    /// Lists the batches of earlier processes, once the directory can be used.
    pub(super) fn load(&mut self) {
        let Some(directory) = self.directory.clone().filter(|_| !self.is_loaded) else {
            return;
        };
        let spooled = self.counts.spooled;
        let listed = self.list(&directory);
        self.record_write(listed.map(|()| true));
        self.evict(0, 0);
        let count = self.counts.spooled.saturating_sub(spooled);
        if count > 0 {
            let records = self.signal.records();
            info!(count, "restored unsent {records} from the spool");
        }
    }

    /// Batches in memory are younger than those in the directory.
    fn list(&mut self, directory: &Path) -> io::Result<()> {
        self.files.make_directory(directory)?;
        let (mut found, mut too_large) = (Vec::new(), Vec::new());
        for (name, bytes) in self.files.list(directory)? {
            let id = self.next_id();
            if name.ends_with(&format!(".json{DRAFT_SUFFIX}")) {
                self.remove(directory, name);
            } else if let Some(entry) = Entry::parse(&name, bytes, id) {
                if bytes > self.limits.max_batch_bytes() {
                    too_large.push(entry);
                } else {
                    found.push(entry);
                }
            }
        }
        found.sort_by_key(|entry| entry.sequence);
        let newest = found.last().map_or(0, |entry| entry.sequence);
        let records: u64 = found.iter().map(|entry| u64::from(entry.records)).sum();
        for (sequence, mut entry) in (newest + 1..).zip(std::mem::take(&mut self.entries)) {
            entry.sequence = sequence;
            found.push(entry);
        }
        self.next_sequence = found.last().map_or(0, |entry| entry.sequence) + 1;
        self.entries = found.into();
        self.counts.spooled += records;
        self.is_loaded = true;
        for entry in too_large {
            let (file, bytes) = (entry.file_name(), entry.bytes);
            warn!(file, bytes, "spool file is too large, set aside");
            self.counts
                .drop_records(DropReason::Unreadable, entry.records.into());
            self.set_aside(&file);
        }
        Ok(())
    }

    /// Writes a batch to disk; false without a directory.
    pub(super) fn store(&mut self, entry: &Entry, content: &[u8]) -> io::Result<bool> {
        // Before the directory is loaded, the name may belong to another batch.
        let Some(directory) = self.directory.clone().filter(|_| self.is_loaded) else {
            return Ok(false);
        };
        let path = directory.join(entry.file_name());
        let written = match file::replace(&mut *self.files, &path, content) {
            // The directory was removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.files.make_directory(&directory)?;
                file::replace(&mut *self.files, &path, content)
            }
            written => written,
        };
        written.map(|()| true)
    }

    /// Counts a failed write; logs the first of consecutive failures, and recovery. True if the batch is on disk.
    pub(super) fn record_write(&mut self, outcome: io::Result<bool>) -> bool {
        match outcome {
            Ok(is_stored) => {
                if is_stored && self.write_error.take().is_some() {
                    info!("spool writes recovered");
                }
                is_stored
            }
            Err(error) => {
                self.counts.write_failures += 1;
                if self.write_error.replace(error.kind()) != Some(error.kind()) {
                    warn!(
                        %error,
                        directory = self.directory.as_ref().map(|path| path.display().to_string()),
                        "spool write failed, unsent {} are kept in memory and do not survive a restart",
                        self.signal.records()
                    );
                }
                false
            }
        }
    }

    /// A file that cannot be removed is removed later; if the process ends before, its batch is sent again.
    pub(super) fn remove(&mut self, directory: &Path, name: String) {
        match self.files.remove(&directory.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                self.record_write(Err(error));
                self.undeleted.push(name);
            }
            Ok(()) => {
                if let Err(error) = self.files.sync_directory(directory) {
                    self.record_write(Err(error));
                }
            }
        }
    }

    /// Renames an unreadable file, and removes the oldest of such files.
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
