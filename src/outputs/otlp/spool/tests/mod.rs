mod kills;
mod limits;
mod unreadable;
mod write_errors;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{
    directory::{ASIDE, MAX_SET_ASIDE},
    *,
};
use opentelemetry_sdk::trace::SpanData;

use crate::{
    azure::event::Status,
    base::{
        file::{DRAFT_SUFFIX, OsFilesystem},
        time::Timestamp,
    },
    outputs::otlp::{batch::Record, fixtures, resource, trace},
};

/// A file system that fails, and counts its operations.
#[derive(Debug, Clone, Default)]
struct FaultyFilesystem(Arc<Mutex<Faults>>);

#[derive(Debug, Default)]
struct Faults {
    steps: usize,
    /// From this step on nothing has an effect, as in a killed process.
    killed_at: Option<usize>,
    /// The error of writes, renames and removals.
    write_error: Option<io::ErrorKind>,
    /// The errors of the next reads.
    read_errors: Vec<io::ErrorKind>,
}

impl FaultyFilesystem {
    fn killed_at(step: usize) -> Self {
        let files = Self::default();
        files.0.lock().unwrap().killed_at = Some(step);
        files
    }

    fn fail_writes(&self, kind: Option<io::ErrorKind>) {
        self.0.lock().unwrap().write_error = kind;
    }

    fn is_killed(&self) -> bool {
        let faults = self.0.lock().unwrap();
        faults.killed_at.is_some_and(|step| faults.steps > step)
    }

    fn step(&self) -> io::Result<()> {
        self.0.lock().unwrap().steps += 1;
        if self.is_killed() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    fn change(&self) -> io::Result<()> {
        self.step()?;
        match self.0.lock().unwrap().write_error {
            Some(kind) => Err(kind.into()),
            None => Ok(()),
        }
    }
}

impl Filesystem for FaultyFilesystem {
    fn make_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.step()?;
        OsFilesystem.make_directory(directory)
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<(String, u64)>> {
        self.step()?;
        OsFilesystem.list(directory)
    }

    fn read(&mut self, path: &Path, max: u64) -> io::Result<Vec<u8>> {
        self.step()?;
        if let Some(kind) = self.0.lock().unwrap().read_errors.pop() {
            return Err(kind.into());
        }
        OsFilesystem.read(path, max)
    }

    /// Steps: before the file exists, when it is empty, when half of it is written, and after it.
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.change()?;
        let (half, _) = content.split_at(content.len() / 2);
        OsFilesystem.write(path, &[])?;
        self.step()?;
        OsFilesystem.write(path, half)?;
        self.step()?;
        OsFilesystem.write(path, content)?;
        self.step()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?;
        OsFilesystem.rename(from, to)?;
        self.step()
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.change()?;
        OsFilesystem.remove(path)?;
        self.step()
    }

    fn sync_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.step()?;
        OsFilesystem.sync_directory(directory)
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_794_906_942 + seconds).unwrap()
}

/// Both clocks after this number of seconds.
fn now(seconds: u64) -> Moment {
    let start = Moment::new(at(0), Duration::from_secs(5));
    start.after(Duration::from_secs(seconds))
}

fn encoded(batch: &Batch) -> Bytes {
    request::encode(batch, Signal::Traces).unwrap()
}

fn counts(spool: &Spool) -> ExportCounts {
    spool.counts.borrow().clone()
}

/// A batch of one span whose name is the number.
fn batch(number: u64) -> Batch {
    let documents = [(1_000, vec![fixtures::event(Status::Scheduled)])];
    let transitions = fixtures::transitions_of(&documents);
    let span = trace::spans(&transitions[0], &fixtures::vm()).remove(0);
    Batch {
        resource: resource::of(&fixtures::settings(&[]), None, Some("web_0")),
        records: vec![Record::Span(SpanData {
            name: Cow::from(number.to_string()),
            ..span
        })],
    }
}

fn open(directory: &Path, files: &FaultyFilesystem) -> Spool {
    limited(Some(directory), files, SpoolLimits::default())
}

fn limited(directory: Option<&Path>, files: &FaultyFilesystem, limits: SpoolLimits) -> Spool {
    Spool::open(Signal::Traces, directory, Box::new(files.clone()), limits)
}

fn numbers_of(batch: &EncodedBatch) -> Vec<u64> {
    let spans = batch.spans.iter();
    spans.map(|span| span.name.parse().unwrap()).collect()
}

/// Completes all batches and returns their numbers.
fn drain(spool: &mut Spool) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some((id, batch)) = spool.next() {
        numbers.extend(numbers_of(&batch));
        spool.complete(id, 0, DropReason::Rejected);
    }
    numbers
}

#[test]
fn postponed_batches_are_sent_after_all_others() {
    let mut spool = limited(None, &FaultyFilesystem::default(), SpoolLimits::default());
    for number in 1..=4 {
        spool.append(batch(number), now(0));
    }
    for number in [1, 2, 3, 4, 1] {
        let (id, leased) = spool.next().unwrap();
        assert_eq!(numbers_of(&leased), [number]);
        spool.postpone(id);
    }
    spool.append(batch(5), now(0));
    assert_eq!(drain(&mut spool), [5, 2, 3, 4, 1]);
}

fn file_names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = OsFilesystem
        .list(directory)
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names
}

fn dropped(spool: &Spool, reason: DropReason) -> u64 {
    counts(spool).dropped[&reason]
}
