use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use super::{
    disk::{ASIDE, MAX_SET_ASIDE, NEW},
    *,
};
use crate::otlp::trace::{Attribute, Span, SpanEvent, Value};

/// Files that stop working, all at once or one kind of them, and count what is asked of them.
#[derive(Debug, Clone, Default)]
struct Faulty(Arc<Mutex<Faults>>);

#[derive(Debug, Default)]
struct Faults {
    steps: usize,
    /// The process is dead from this step on: nothing has an effect any more.
    dead_at: Option<usize>,
    /// What the disk says to writes, renames and removals.
    refuses: Option<io::ErrorKind>,
    /// What it says to the next reads.
    reads: Vec<io::ErrorKind>,
}

impl Faulty {
    fn dying_at(step: usize) -> Self {
        let faulty = Self::default();
        faulty.0.lock().unwrap().dead_at = Some(step);
        faulty
    }

    fn refuse(&self, kind: Option<io::ErrorKind>) {
        self.0.lock().unwrap().refuses = kind;
    }

    fn is_dead(&self) -> bool {
        let faults = self.0.lock().unwrap();
        faults.dead_at.is_some_and(|step| faults.steps > step)
    }

    fn step(&self) -> io::Result<()> {
        self.0.lock().unwrap().steps += 1;
        if self.is_dead() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    fn change(&self) -> io::Result<()> {
        self.step()?;
        match self.0.lock().unwrap().refuses {
            Some(kind) => Err(kind.into()),
            None => Ok(()),
        }
    }
}

impl Files for Faulty {
    fn make_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.step()?;
        Disk.make_directory(directory)
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<(String, u64)>> {
        self.step()?;
        Disk.list(directory)
    }

    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.step()?;
        if let Some(kind) = self.0.lock().unwrap().reads.pop() {
            return Err(kind.into());
        }
        Disk.read(path)
    }

    /// Dies before the file is there, in the middle of it, and after it.
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.change()?;
        let (half, _) = content.split_at(content.len() / 2);
        Disk.write(path, &[])?;
        self.step()?;
        Disk.write(path, half)?;
        self.step()?;
        Disk.write(path, content)?;
        self.step()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.change()?;
        Disk.rename(from, to)?;
        self.step()
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.change()?;
        Disk.remove(path)?;
        self.step()
    }

    fn sync_directory(&mut self, directory: &Path) -> io::Result<()> {
        self.step()?;
        Disk.sync_directory(directory)
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_794_906_942 + seconds).unwrap()
}

/// A batch of one span that is called as its number.
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
        spans: vec![span],
    }
}

fn open(directory: &Path, files: &Faulty) -> Spool {
    Spool::open(
        Some(directory),
        Box::new(files.clone()),
        SpoolLimits::default(),
    )
}

/// Takes everything out, as a sender does, and says what it was.
fn drain(spool: &mut Spool, now: Timestamp) -> Vec<u64> {
    let mut taken = Vec::new();
    while let Some(lent) = spool.next(now) {
        taken.extend(
            lent.batch
                .spans
                .iter()
                .map(|span| span.name.parse::<u64>().unwrap()),
        );
        spool.done(lent.ticket);
    }
    taken
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = Disk
        .list(directory)
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names
}

fn dropped(spool: &Spool, reason: DropReason) -> u64 {
    spool.counts().dropped[&reason]
}

#[test]
fn what_is_read_back_is_what_was_written() {
    for number in [1, 4] {
        let written = codec::write(&batch(number)).unwrap();
        assert_eq!(codec::read(&written).unwrap(), batch(number));
    }
}

#[test]
fn batches_come_back_in_order_after_a_restart_and_only_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path(), &Faulty::default());
    for number in 1..=12 {
        spool.append(&batch(number), at(0));
    }
    assert_eq!(spool.counts().spooled, 12);
    let mut spool = open(directory.path(), &Faulty::default());
    assert_eq!(spool.counts().spooled, 12);
    spool.append(&batch(13), at(1));
    assert_eq!(drain(&mut spool, at(2)), (1..=13).collect::<Vec<_>>());
    assert_eq!(spool.counts().spooled, 0);
    assert!(names(directory.path()).is_empty());
}

/// Appends and sends a script until the files die at a step, starts again, and goes on where the script stopped. Returns
/// how often each batch was delivered.
fn killed_at(step: usize, directory: &Path) -> (BTreeMap<u64, usize>, bool) {
    const BATCHES: u64 = 6;
    let mut delivered = BTreeMap::new();
    let mut deliver = |spool: &mut Spool| {
        let lent = spool.next(at(1))?;
        for span in &lent.batch.spans {
            *delivered
                .entry(span.name.parse::<u64>().unwrap())
                .or_default() += 1;
        }
        spool.done(lent.ticket);
        Some(())
    };
    let mut files = Faulty::dying_at(step);
    let mut spool = open(directory, &files);
    let mut next = 1;
    let mut was_killed = false;
    while next <= BATCHES || spool.counts().spooled > 0 {
        if next <= BATCHES {
            spool.append(&batch(next), at(0));
            // The process that died did not live to note that it was done.
            next += u64::from(!files.is_dead());
        }
        if !files.is_dead() && next.is_multiple_of(2) || next > BATCHES {
            deliver(&mut spool);
        }
        if files.is_dead() {
            was_killed = true;
            files = Faulty::default();
            spool = open(directory, &files);
        }
    }
    (delivered, was_killed)
}

#[test]
fn killed_at_any_step_it_loses_nothing_and_repeats_at_most_once() {
    let mut kills = 0;
    let mut repeated = 0;
    for step in 0.. {
        let directory = tempfile::tempdir().unwrap();
        let (delivered, was_killed) = killed_at(step, directory.path());
        let numbers: Vec<_> = delivered.keys().copied().collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "killed at step {step}");
        assert!(
            delivered.values().all(|times| *times <= 2),
            "killed at step {step}: {delivered:?}"
        );
        assert!(names(directory.path()).is_empty(), "killed at step {step}");
        repeated += delivered.values().filter(|times| **times > 1).count();
        if !was_killed {
            break;
        }
        kills += 1;
    }
    println!("killed at each of {kills} steps: 0 batches lost, {repeated} sent twice");
    assert!(kills > 60, "{kills}");
}

#[test]
fn what_is_too_much_costs_the_oldest_and_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let size = codec::write(&batch(1)).unwrap().len() as u64;
    for directory in [Some(directory.path()), None] {
        let limits = SpoolLimits {
            bytes: 3 * size + size / 2,
            ..SpoolLimits::default()
        };
        let mut spool = Spool::open(directory, Box::new(Faulty::default()), limits);
        for number in 1..=5 {
            spool.append(&batch(number), at(0));
        }
        assert_eq!(dropped(&spool, DropReason::SpoolFull), 2);
        assert_eq!(spool.counts().spooled, 3);
        assert_eq!(drain(&mut spool, at(0)), [3, 4, 5]);
    }
    let limits = SpoolLimits {
        batches: 2,
        ..SpoolLimits::default()
    };
    let mut spool = Spool::open(Some(directory.path()), Box::new(Faulty::default()), limits);
    for number in 1..=5 {
        spool.append(&batch(number), at(0));
    }
    assert_eq!(drain(&mut spool, at(0)), [4, 5]);
    assert!(names(directory.path()).is_empty());
}

#[test]
fn what_is_too_old_is_dropped_and_a_clock_that_steps_an_hour_drops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path(), &Faulty::default());
    spool.append(&batch(1), at(0));
    spool.append(&batch(2), at(-3_600));
    spool.append(&batch(3), at(3_600));
    spool.maintain(at(-3_600));
    assert_eq!(spool.counts().spooled, 3);
    spool.maintain(at(7 * 86_400 + 1));
    assert_eq!(dropped(&spool, DropReason::Age), 2);
    assert_eq!(drain(&mut spool, at(7 * 86_400)), [3]);
}

#[test]
fn unreadable_files_are_set_aside_and_counted_and_foreign_ones_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut spool = open(path, &Faulty::default());
    for number in 1..=4 {
        spool.append(&batch(number), at(0));
    }
    let files = names(path);
    let content = fs_read(&path.join(&files[0]));
    Disk.write(&path.join(&files[0]), &content[..content.len() / 2])
        .unwrap();
    Disk.write(&path.join(&files[1]), b"{\"version\":2,\"spans\":{}}")
        .unwrap();
    Disk.write(&path.join(&files[2]), b"").unwrap();
    Disk.write(&path.join("notes.txt"), b"by hand").unwrap();
    Disk.write(&path.join(format!("{}{NEW}", files[3])), b"{")
        .unwrap();
    let mut spool = open(path, &Faulty::default());
    assert_eq!(drain(&mut spool, at(0)), [4]);
    assert_eq!(dropped(&spool, DropReason::Unreadable), 3);
    assert_eq!(spool.counts().spooled, 0);
    let mut left: Vec<_> = files[..3]
        .iter()
        .map(|name| format!("{name}{ASIDE}"))
        .collect();
    left.push("notes.txt".to_owned());
    assert_eq!(names(path), left);
}

fn fs_read(path: &Path) -> Vec<u8> {
    Disk.read(path).unwrap()
}

#[test]
fn what_cannot_be_read_for_now_is_kept_and_holds_up_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let files = Faulty::default();
    let mut spool = open(directory.path(), &files);
    for number in 1..=3 {
        spool.append(&batch(number), at(0));
    }
    let refused = io::ErrorKind::PermissionDenied;
    files.0.lock().unwrap().reads = vec![refused];
    assert_eq!(drain(&mut spool, at(0)), [2, 1, 3]);
    assert_eq!(dropped(&spool, DropReason::Unreadable), 0);
    spool.append(&batch(4), at(0));
    files.0.lock().unwrap().reads = vec![refused];
    assert_eq!(spool.next(at(0)), None);
    assert_eq!(spool.counts().spooled, 1, "it waits");
    assert_eq!(drain(&mut spool, at(0)), [4]);
    spool.append(&batch(5), at(0));
    files.0.lock().unwrap().reads = vec![refused];
    assert_eq!(spool.next(at(7 * 86_400)), None);
    assert_eq!(spool.next(at(7 * 86_400 + 1)), None);
    assert_eq!(dropped(&spool, DropReason::Age), 1, "and not for ever");
}

#[test]
fn a_file_whose_number_leaves_no_room_for_another_is_foreign() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("{}-1794906942-1.json", u64::MAX);
    Disk.write(&directory.path().join(&name), b"{}").unwrap();
    let mut spool = open(directory.path(), &Faulty::default());
    spool.append(&batch(1), at(0));
    assert_eq!(drain(&mut spool, at(0)), [1]);
    assert_eq!(names(directory.path()), [name]);
}

#[test]
fn a_batch_that_was_dropped_under_way_is_not_lost_twice() {
    let limits = SpoolLimits {
        batches: 1,
        ..SpoolLimits::default()
    };
    let mut spool = Spool::open(None, Box::new(Faulty::default()), limits);
    spool.append(&batch(1), at(0));
    let lent = spool.next(at(0)).unwrap();
    spool.append(&batch(2), at(0));
    assert_eq!(dropped(&spool, DropReason::SpoolFull), 1);
    spool.refused(lent.ticket, 1);
    assert_eq!(dropped(&spool, DropReason::Rejected), 0);
    let lent = spool.next(at(0)).unwrap();
    spool.refused(lent.ticket, 1);
    assert_eq!(dropped(&spool, DropReason::Rejected), 1);
    assert_eq!(spool.counts().spooled, 0);
}

#[test]
fn not_more_files_are_set_aside_than_somebody_would_look_at() {
    let directory = tempfile::tempdir().unwrap();
    let mut spool = open(directory.path(), &Faulty::default());
    for number in 1..=40 {
        spool.append(&batch(number), at(0));
    }
    for name in names(directory.path()) {
        Disk.write(&directory.path().join(name), b"?").unwrap();
    }
    assert!(drain(&mut spool, at(0)).is_empty());
    assert_eq!(dropped(&spool, DropReason::Unreadable), 40);
    assert_eq!(names(directory.path()).len(), MAX_SET_ASIDE);
}

#[test]
fn what_the_disk_refuses_waits_in_memory_in_order_until_it_takes_it() {
    for kind in [
        io::ErrorKind::StorageFull,
        io::ErrorKind::ReadOnlyFilesystem,
    ] {
        let directory = tempfile::tempdir().unwrap();
        let files = Faulty::default();
        let mut spool = open(directory.path(), &files);
        spool.append(&batch(1), at(0));
        files.refuse(Some(kind));
        spool.append(&batch(2), at(0));
        spool.append(&batch(3), at(0));
        assert_eq!(spool.counts().write_failures, 2);
        assert_eq!(names(directory.path()).len(), 1);
        spool.maintain(at(0));
        assert_eq!(spool.counts().write_failures, 3);
        files.refuse(None);
        spool.append(&batch(4), at(0));
        spool.maintain(at(0));
        assert_eq!(names(directory.path()).len(), 4);
        assert_eq!(
            drain(&mut open(directory.path(), &Faulty::default()), at(0)),
            [1, 2, 3, 4]
        );
    }
}

#[test]
fn memory_is_bounded_while_the_disk_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let size = codec::write(&batch(1)).unwrap().len() as u64;
    let files = Faulty::default();
    let limits = SpoolLimits {
        memory_bytes: 2 * size + size / 2,
        ..SpoolLimits::default()
    };
    let mut spool = Spool::open(Some(directory.path()), Box::new(files.clone()), limits);
    spool.append(&batch(1), at(0));
    files.refuse(Some(io::ErrorKind::StorageFull));
    for number in 2..=5 {
        spool.append(&batch(number), at(0));
    }
    assert_eq!(dropped(&spool, DropReason::SpoolFull), 2);
    assert_eq!(drain(&mut spool, at(0)), [1, 4, 5]);
}

#[test]
fn what_was_sent_and_cannot_be_removed_is_not_sent_again_and_removed_later() {
    let directory = tempfile::tempdir().unwrap();
    let files = Faulty::default();
    let mut spool = open(directory.path(), &files);
    spool.append(&batch(1), at(0));
    files.refuse(Some(io::ErrorKind::ReadOnlyFilesystem));
    assert_eq!(drain(&mut spool, at(0)), [1]);
    assert_eq!(
        (spool.counts().spooled, names(directory.path()).len()),
        (0, 1)
    );
    files.refuse(None);
    spool.maintain(at(0));
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_directory_that_is_removed_is_made_anew() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("spool");
    let mut spool = open(&directory, &Faulty::default());
    spool.append(&batch(1), at(0));
    std::fs::remove_dir_all(&directory).unwrap();
    spool.append(&batch(2), at(0));
    assert_eq!(drain(&mut spool, at(0)), [2]);
    assert_eq!(dropped(&spool, DropReason::Unreadable), 1);
}

#[test]
fn a_directory_that_can_be_used_only_later_is_older_than_what_came_meanwhile() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("spool");
    let mut earlier = open(&directory, &Faulty::default());
    earlier.append(&batch(1), at(0));
    let moved = parent.path().join("moved");
    std::fs::rename(&directory, &moved).unwrap();
    Disk.write(&directory, b"a file is in its place").unwrap();
    let mut spool = open(&directory, &Faulty::default());
    spool.append(&batch(2), at(0));
    let lent = spool.next(at(0)).unwrap();
    assert_eq!(lent.batch, batch(2));
    std::fs::remove_file(&directory).unwrap();
    std::fs::rename(&moved, &directory).unwrap();
    spool.append(&batch(3), at(0));
    // The batch that was under way meanwhile is the one that is done, whatever its place is now.
    spool.done(lent.ticket);
    assert_eq!(drain(&mut spool, at(0)), [1, 3]);
    assert!(names(&directory).is_empty());
}
