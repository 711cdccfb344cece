//! The directory of the spool.

use std::{io, path::Path};

use tracing::{info, warn};

use super::{Spool, SpoolEntry};
use crate::{
    base::file::{self, DRAFT_SUFFIX},
    outputs::output_counters::DropReason,
};

/// Unreadable files that are kept for inspection.
pub(super) const MAX_SET_ASIDE: usize = 16;
/// The body of a request of OTLP over HTTP in protobuf.
const SUFFIX: &str = ".otlp";
pub(super) const ASIDE: &str = ".unreadable";
/// Files with larger numbers are foreign: later ones must not overflow.
const MAX_ID: u64 = u64::MAX / 2;

pub(super) fn file_name(id: u64, records: u64) -> String {
    format!("{id:020}-{records}{SUFFIX}")
}

/// The id and the number of records. `None` unless the name is one that [`file_name`] makes.
fn parse(name: &str) -> Option<(u64, u64)> {
    let (id, records) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    // A sum of 32-bit numbers of all files does not overflow.
    let (id, records) = (id.parse().ok()?, records.parse::<u32>().ok()?.into());
    (id <= MAX_ID && file_name(id, records) == name).then_some((id, records))
}

impl Spool {
    /// Lists the batches of earlier processes, once. False without a directory, or if the disk fails.
    pub(super) fn load(&mut self) -> bool {
        let Some(directory) = self.directory.clone() else {
            return false;
        };
        if self.is_loaded {
            return true;
        }
        let made = self.files.make_directory(&directory);
        let found = match made.and_then(|()| self.files.list(&directory)) {
            Ok(found) => found,
            Err(error) => {
                self.report_failure(&error);
                return false;
            }
        };
        self.is_loaded = true;
        let mut restored = 0;
        for (name, bytes) in found {
            if name.ends_with(&format!("{SUFFIX}{DRAFT_SUFFIX}")) {
                self.remove(name);
            } else if let Some((id, records)) = parse(&name) {
                if bytes > self.limits.max_batch_bytes() {
                    warn!(file = name, bytes, "spool file is too large, set aside");
                    self.count(|counts| counts.drop_records(DropReason::Unreadable, records));
                    self.set_aside(&name);
                } else {
                    restored += records;
                    self.last_id = self.last_id.max(id);
                    self.entries.insert(id, SpoolEntry::new(records, bytes));
                }
            } else if Path::new(&name).extension().is_some_and(|it| it == "json") {
                warn!(file = name, "spool file of an earlier version is not sent");
            }
        }
        self.count(|counts| counts.spooled += restored);
        self.make_room(0);
        if restored > 0 {
            let records = self.signal.records();
            info!(count = restored, "restored unsent {records} from the spool");
        }
        true
    }

    /// Writes a batch to disk. False without a directory, or if the disk fails.
    pub(super) fn store(&mut self, name: &str, content: &[u8]) -> bool {
        let Some(directory) = &self.directory else {
            return false;
        };
        // It may have been removed.
        let made = self.files.make_directory(directory);
        let path = directory.join(name);
        let written = made.and_then(|()| file::replace(&mut *self.files, &path, content));
        if let Err(error) = written {
            self.report_failure(&error);
            return false;
        }
        if self.write_error.take().is_some() {
            info!("spool writes recovered");
        }
        true
    }

    /// Counts a failed write, and logs the first of consecutive failures.
    fn report_failure(&mut self, error: &io::Error) {
        self.count(|counts| counts.write_failures += 1);
        if self.write_error.replace(error.kind()) != Some(error.kind()) {
            warn!(
                %error,
                directory = self.directory.as_ref().map(|path| path.display().to_string()),
                "spool write failed, unsent {} are kept in memory and do not survive a restart",
                self.signal.records()
            );
        }
    }

    /// A file that cannot be removed is removed later; if the process ends before, its batch is sent again.
    pub(super) fn remove(&mut self, name: String) {
        let Some(directory) = &self.directory else {
            return;
        };
        let removed = match self.files.remove(&directory.join(&name)) {
            Ok(()) => self.files.sync_directory(directory),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => {
                self.undeleted.push(name);
                Err(error)
            }
        };
        if let Err(error) = removed {
            self.report_failure(&error);
        }
    }

    /// Renames an unreadable file, and removes the oldest of such files.
    pub(super) fn set_aside(&mut self, name: &str) {
        let Some(directory) = &self.directory else {
            return;
        };
        let aside = directory.join(format!("{name}{ASIDE}"));
        let renamed = self.files.rename(&directory.join(name), &aside);
        let Ok(listed) = renamed.and_then(|()| self.files.list(directory)) else {
            return;
        };
        let names = listed.into_iter().map(|(name, _)| name);
        let mut aside: Vec<_> = names.filter(|name| name.ends_with(ASIDE)).collect();
        aside.sort_unstable();
        let surplus = aside.len().saturating_sub(MAX_SET_ASIDE);
        for name in aside.into_iter().take(surplus) {
            self.remove(name);
        }
    }
}
