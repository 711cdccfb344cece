mod kills;
mod limits;
mod unreadable;
mod write_errors;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{
    directory::{ASIDE, MAX_SET_ASIDE},
    *,
};
use crate::{
    base::{
        file::{DRAFT_SUFFIX, OsFilesystem},
        time::Timestamp,
    },
    outputs::otlp::{
        attribute::{Attribute, Value},
        batch::Record,
        log_record::{EventName, LogRecord, Severity},
        trace::{Span, SpanEvent},
    },
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

fn encoded(batch: &Batch) -> Vec<u8> {
    batch.to_json(usize::MAX).unwrap().unwrap()
}

fn counts(spool: &Spool) -> ExportCounts {
    spool.counts.borrow().clone()
}

/// A batch of one span whose name is the number.
fn batch(number: u64) -> Batch {
    let attribute = |key: &str, value| Attribute {
        key: key.to_owned(),
        value,
    };
    let attributes = vec![
        attribute("text", Value::Text("a \"b\"\n\u{e4}".to_owned())),
        attribute("int", Value::Int(-9)),
        attribute("float", Value::Float(0.1 + 0.2)),
        attribute(
            "texts",
            Value::Texts(vec!["web_0".to_owned(), String::new()]),
        ),
    ];
    let span = Span {
        trace_id: 7_u128.to_be_bytes(),
        span_id: number.to_be_bytes(),
        parent_span_id: Some(9_u64.to_be_bytes()),
        name: number.to_string(),
        start: Timestamp::from_unix_nanos(1_794_906_942_123_456_789).unwrap(),
        end: at(9),
        attributes: attributes.clone(),
        events: vec![SpanEvent {
            name: "interrupted".to_owned(),
            at: at(3),
            attributes,
        }],
        error: (number == 4).then(|| "status 400".to_owned()),
    };
    Batch {
        resource: BTreeMap::from([("host.name".to_owned(), "web_0".to_owned())]),
        records: vec![Record::Span(span)],
    }
}

fn span_of(record: &mut Record) -> &mut Span {
    match record {
        Record::Span(span) => span,
        Record::Log(record) => panic!("{record:?}"),
    }
}

/// A log record of each name and severity.
fn log_records() -> Batch {
    let severities = [Severity::Info, Severity::Warn, Severity::Error];
    let records = EventName::ALL.iter().zip(severities.into_iter().cycle());
    let record = |(&name, severity)| {
        Record::Log(LogRecord {
            name,
            at: at(3),
            severity,
            body: "a \"b\"\u{202e}".to_owned(),
            trace_id: 7_u128.to_be_bytes(),
            span_id: 9_u64.to_be_bytes(),
            uid: String::new(),
            attributes: span_of(&mut batch(1).records[0]).attributes.clone(),
        })
    };
    Batch {
        records: records.map(record).collect(),
        ..batch(1)
    }
}

fn open(directory: &Path, files: &FaultyFilesystem) -> Spool {
    limited(Some(directory), files, SpoolLimits::default())
}

fn limited(directory: Option<&Path>, files: &FaultyFilesystem, limits: SpoolLimits) -> Spool {
    Spool::open(Signal::Traces, directory, Box::new(files.clone()), limits)
}

/// Completes all batches and returns their numbers.
fn drain(spool: &mut Spool) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some((id, batch)) = spool.next() {
        let spans = batch.spans();
        numbers.extend(spans.map(|span| span.name.parse::<u64>().unwrap()));
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
        assert_eq!(leased, batch(number));
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
