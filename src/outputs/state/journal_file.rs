//! The file of the journal. It is appended to, and replaced when it is full or its end is not certain.
//!
//! Each line has the CRC-32 of its JSON, a space and the JSON. The first one has the id of the journal, the others are entries.

use std::{
    io::{self, ErrorKind},
    path::Path,
    sync::Arc,
};

use flate2::Crc;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::{
    base::file::{self, Filesystem},
    core::journal::{Entry, Journal},
};

const VERSION: u32 = 1;
/// The largest file. The entries that a journal keeps take about three quarters of it.
const MAX_BYTES: u64 = 4 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    #[serde(default)]
    journal: Arc<str>,
    #[serde(default)]
    dropped: u64,
}

#[derive(Debug, Default)]
pub struct JournalContent {
    /// Some entries up to this number are missing.
    pub dropped: u64,
    /// Up to this number, entries were dropped for the bounds.
    pub(super) bounded: u64,
    pub entries: Vec<Entry>,
    /// `None` without a file, or if a line is invalid.
    pub(super) end: Option<FileEnd>,
}

/// Where the next entry is appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileEnd {
    /// The last number that the file has.
    number: u64,
    bytes: u64,
}

/// Writes the entries that the file does not have.
pub(super) fn write(
    end: &mut Option<FileEnd>,
    files: &mut dyn Filesystem,
    path: &Path,
    journal: &Journal,
) -> io::Result<()> {
    if journal.newest == 0 {
        return Ok(());
    }
    // An error leaves `None`: after a failed fsync, the system may not have what it seems to have.
    let appended = end.take().and_then(|end| append(end, files, path, journal));
    let bytes = appended.map_or_else(|| replace(files, path, journal), Ok)?;
    let number = journal.newest;
    *end = Some(FileEnd { number, bytes });
    Ok(())
}

/// The new length. `None` if the file must be replaced.
fn append(end: FileEnd, files: &mut dyn Filesystem, path: &Path, journal: &Journal) -> Option<u64> {
    let lines = lines_after(journal, end.number);
    let bytes = end.bytes + lines.len() as u64;
    if bytes > MAX_BYTES {
        return None;
    }
    if !lines.is_empty()
        && let Err(error) = files.append(path, end.bytes, &lines)
    {
        warn!(%error, "append to the journal failed, file is replaced");
        return None;
    }
    Some(bytes)
}

fn replace(files: &mut dyn Filesystem, path: &Path, journal: &Journal) -> io::Result<u64> {
    let content = content(journal)?;
    file::replace(files, path, &content)?;
    Ok(content.len() as u64)
}

pub fn content(journal: &Journal) -> io::Result<Vec<u8>> {
    let header = serde_json::to_vec(&Header {
        version: VERSION,
        journal: Arc::clone(&journal.id),
        dropped: journal.dropped,
    })?;
    let mut content = line(&header);
    content.extend(lines_after(journal, 0));
    Ok(content)
}

fn lines_after(journal: &Journal, number: u64) -> Vec<u8> {
    let entries = journal.after(number);
    let json = entries.filter_map(|entry| entry.to_json().ok().flatten());
    json.map(|json| line(&json)).collect::<Vec<_>>().concat()
}

/// A line of the file with this JSON.
pub fn line(json: &[u8]) -> Vec<u8> {
    [checksum(json).as_bytes(), json, b"\n"].concat()
}

fn checksum(json: &[u8]) -> String {
    let mut crc = Crc::new();
    crc.update(json);
    format!("{:08x} ", crc.sum())
}

/// The JSON of a line. `None` if a part of it is missing or damaged.
fn json_of(line: &[u8]) -> Option<&[u8]> {
    let (start, json) = line.strip_suffix(b"\n")?.split_at_checked(9)?;
    (start == checksum(json).as_bytes()).then_some(json)
}

/// Reads the file of the journal with this id; nothing is left of it without a file. The error says why the file cannot
/// be used.
pub(super) fn read(
    files: &mut dyn Filesystem,
    path: &Path,
    id: &Arc<str>,
) -> Result<JournalContent, String> {
    match files.read(path, MAX_BYTES) {
        Ok(content) => parse(&content, id),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(JournalContent::default()),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => {
            Err(format!("larger than {MAX_BYTES} bytes"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Leaves out invalid lines; the last one is invalid if its append was not complete.
pub fn parse(content: &[u8], id: &Arc<str>) -> Result<JournalContent, String> {
    let mut lines = content.split_inclusive(|byte| *byte == b'\n').map(json_of);
    let first = lines.next().flatten().ok_or("the first line is invalid")?;
    let header: Header = serde_json::from_slice(first).map_err(|error| error.to_string())?;
    if header.version > VERSION {
        return Err(format!(
            "written by a newer version of this program (version {}, supported {VERSION})",
            header.version
        ));
    }
    if header.journal != *id {
        return Err("another journal than that of the state".to_owned());
    }
    let (mut dropped, mut last, mut is_valid) = (header.dropped, 0, true);
    let mut entries = Vec::new();
    for line in lines {
        let entry = line.and_then(|json| serde_json::from_slice::<Entry>(json).ok());
        let Some(entry) = entry.filter(|entry| entry.number > last) else {
            is_valid = false;
            continue;
        };
        // A damaged line, or one that an earlier process could not write.
        if entry.number - 1 != last {
            dropped = dropped.max(entry.number - 1);
        }
        last = entry.number;
        entries.push(entry);
    }
    let end = is_valid.then_some(FileEnd {
        number: last,
        bytes: content.len() as u64,
    });
    Ok(JournalContent {
        bounded: header.dropped,
        dropped,
        entries,
        end,
    })
}
