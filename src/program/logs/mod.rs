//! Log lines on stderr or, of a Windows service, in the event log; in logfmt or as JSON.
//!
//! A separate thread writes the lines, so that a stderr whose reader has stopped cannot block the event loop. Lines
//! that find its queue full are dropped and counted. Libraries log from `warn` on, whatever the level.
//!
//! `tracing_appender` is not used for it: it ends the process where no thread is left, does not count lines that cannot
//! be written, loses their level and name, and reports a full queue at the end of the process on stdout, which blocks
//! for ever where stdout and stderr are one pipe.

#[cfg(windows)]
pub(crate) mod event_log;

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::Targets, fmt::MakeWriter, layer::SubscriberExt};

use crate::{
    base::text::sanitize,
    program::{
        CommandError,
        cli::{LogFlags, LogFormat},
    },
};

/// Where the lines go: writes one line of this level and name, which ends in a line feed.
pub(crate) type WriteLine = fn(Level, &str, &[u8]) -> io::Result<()>;

/// Bytes that wait for stderr, so that a document with thousands of events fits; more are dropped. A line that is longer
/// fits into an empty queue.
const QUEUE_CAPACITY: usize = 1 << 20;
/// Counted for each line on top of its bytes.
const LINE_OVERHEAD: usize = 64;
/// Limit for the last lines of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes the queued lines when it is dropped, for at most one second. Lines that are logged later are lost.
#[derive(Debug)]
#[must_use]
pub(crate) struct LogGuard {
    queue: LineQueue,
    writer_ended: Receiver<()>,
}

impl LogGuard {
    /// Counts the lines that did not reach stderr.
    pub(crate) fn dropped_lines(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.queue.dropped)
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.queue.lines.send(None).ok();
        // An error is the normal case: the thread drops its sender when it has written the lines.
        self.writer_ended.recv_timeout(FLUSH_TIMEOUT).ok();
    }
}

/// Call it once per process.
pub(crate) fn init(flags: LogFlags, write_line: WriteLine) -> Result<LogGuard, CommandError> {
    let (queue, lines) = LineQueue::new();
    let written = queue.clone();
    let (ended, writer_ended) = mpsc::channel();
    let write = move || {
        write_lines(&lines, write_line, &written);
        drop(ended);
    };
    let thread = thread::Builder::new().name("log".to_owned()).spawn(write);
    thread.map_err(|cause| CommandError::system("cannot start a thread", &cause))?;
    tracing::subscriber::set_global_default(subscriber(flags, queue.clone()))
        .map_err(|cause| CommandError::system("cannot set up logging", &cause))?;
    Ok(LogGuard {
        queue,
        writer_ended,
    })
}

pub(crate) fn write_stderr(_level: Level, _name: &str, line: &[u8]) -> io::Result<()> {
    io::stderr().write_all(line)
}

/// Writes the last line of a process. The line is dropped if stderr does not accept it in time.
pub fn print_stderr(text: &str) {
    let (done, printed) = mpsc::channel::<()>();
    let line = text.to_owned();
    let print = move || {
        io::stderr().write_all(line.as_bytes()).ok();
        drop(done);
    };
    match thread::Builder::new().spawn(print) {
        Ok(_) => drop(printed.recv_timeout(FLUSH_TIMEOUT)),
        Err(_) => drop(io::stderr().write_all(text.as_bytes())),
    }
}

fn subscriber(flags: LogFlags, writer: LineQueue) -> impl Subscriber + Send + Sync {
    let targets = Targets::new()
        .with_default(flags.level.min(LevelFilter::WARN))
        .with_target(env!("CARGO_CRATE_NAME"), flags.level);
    let layer = match flags.format {
        LogFormat::Logfmt => tracing_logfmt::builder()
            .with_target(false)
            .with_span_name(false)
            .with_span_path(false)
            .layer()
            .with_writer(writer)
            .boxed(),
        LogFormat::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_target(false)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(writer)
            .boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(targets))
}

#[derive(Debug)]
struct Line {
    level: Level,
    /// One of `log_id`, or the place in the source.
    name: &'static str,
    text: Vec<u8>,
}

/// Never blocks: what does not fit is dropped and counted.
#[derive(Debug, Clone)]
struct LineQueue {
    /// `None` ends the writer.
    lines: Sender<Option<Line>>,
    queued_bytes: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

impl LineQueue {
    fn new() -> (Self, Receiver<Option<Line>>) {
        let (sender, lines) = mpsc::channel();
        let queue = Self {
            lines: sender,
            queued_bytes: Arc::default(),
            dropped: Arc::default(),
        };
        (queue, lines)
    }

    fn push(&self, line: Line) {
        let size = line.text.len() + LINE_OVERHEAD;
        let queued = self.queued_bytes.load(Relaxed);
        if queued > 0 && queued + size > QUEUE_CAPACITY {
            self.dropped.fetch_add(1, Relaxed);
        } else {
            self.queued_bytes.fetch_add(size, Relaxed);
            // After the last line of the process nobody receives.
            self.lines.send(Some(line)).ok();
        }
    }
}

impl<'a> MakeWriter<'a> for LineQueue {
    type Writer = LineWriter<'a>;

    /// The layers call the other function.
    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter {
            level: Level::INFO,
            name: "",
            queue: self,
        }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter {
            level: *metadata.level(),
            name: metadata.name(),
            queue: self,
        }
    }
}

/// A layer writes each line with a single call.
struct LineWriter<'a> {
    level: Level,
    name: &'static str,
    queue: &'a LineQueue,
}

impl Write for LineWriter<'_> {
    /// Values in the line may come from Azure, a collector or an Alertmanager.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        self.queue.push(Line {
            level: self.level,
            name: self.name,
            text: format!("{}\n", sanitize(text)).into_bytes(),
        });
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs until the end of the lines. A line that cannot be written counts as dropped.
fn write_lines(
    lines: &Receiver<Option<Line>>,
    write_line: impl Fn(Level, &str, &[u8]) -> io::Result<()>,
    queue: &LineQueue,
) {
    while let Ok(Some(line)) = lines.recv() {
        if write_line(line.level, line.name, &line.text).is_err() {
            queue.dropped.fetch_add(1, Relaxed);
        }
        let size = line.text.len() + LINE_OVERHEAD;
        queue.queued_bytes.fetch_sub(size, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fmt::Write as _};

    use super::*;

    fn push(queue: &LineQueue, text: &str) {
        queue.push(Line {
            level: Level::INFO,
            name: "",
            text: text.into(),
        });
    }

    /// The output of the queued lines, in its order.
    fn written(queue: &LineQueue, lines: &Receiver<Option<Line>>) -> String {
        queue.lines.send(None).unwrap();
        let output = RefCell::new(String::new());
        let write_line = |level: Level, name: &str, line: &[u8]| {
            let text = std::str::from_utf8(line).unwrap();
            write!(output.borrow_mut(), "{level} {name} {text}").unwrap();
            Ok(())
        };
        write_lines(lines, write_line, queue);
        output.into_inner()
    }

    const FLAGS: LogFlags = LogFlags {
        level: LevelFilter::INFO,
        format: LogFormat::Logfmt,
    };

    #[test]
    fn lines_keep_their_order_level_and_name() {
        let (queue, lines) = LineQueue::new();
        tracing::subscriber::with_default(subscriber(FLAGS, queue.clone()), || {
            tracing::warn!(name: "first", field = 1, "one");
            tracing::debug!("hidden");
            tracing::error!(name: "second", "two");
        });
        let output = written(&queue, &lines);
        let lines = output.lines().filter_map(|line| line.split_once(" ts="));
        let starts: Vec<_> = lines.map(|(start, _)| start).collect();
        assert_eq!(starts, ["WARN first", "ERROR second"], "{output}");
    }

    #[test]
    fn lines_beyond_the_capacity_are_counted() {
        let (queue, lines) = LineQueue::new();
        let half = format!("{}\n", "x".repeat(QUEUE_CAPACITY / 2 - LINE_OVERHEAD - 1));
        for line in [&half, &half, "three\n", "four\n"] {
            push(&queue, line);
        }
        assert_eq!(queue.dropped.load(Relaxed), 2);
        let expected = format!("INFO  {half}").repeat(2);
        assert!(written(&queue, &lines) == expected);
    }

    #[test]
    fn a_long_line_fits_into_an_empty_queue_only() {
        let (queue, lines) = LineQueue::new();
        let long = format!("{}\n", "x".repeat(QUEUE_CAPACITY));
        push(&queue, &long);
        push(&queue, "no\n");
        assert!(written(&queue, &lines) == format!("INFO  {long}"));
        assert_eq!(queue.dropped.load(Relaxed), 1);
        assert_eq!(queue.queued_bytes.load(Relaxed), 0);
    }

    #[test]
    fn line_that_cannot_be_written_counts_as_dropped() {
        let (queue, lines) = LineQueue::new();
        push(&queue, "fails\n");
        queue.lines.send(None).unwrap();
        let write_line = |_, _: &str, _: &[u8]| Err(io::ErrorKind::WriteZero.into());
        write_lines(&lines, write_line, &queue);
        assert_eq!(queue.dropped.load(Relaxed), 1);
    }
}
