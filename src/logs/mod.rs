//! Log lines on stderr or, of a Windows service, in the event log; in logfmt or as JSON.
//!
//! A separate thread writes the lines, so that a stderr whose reader has stopped cannot block the event loop. The queue
//! in front of it is bounded. Lines that find it full are dropped and counted, and a warning reports them as soon as
//! the queue is empty again.
//!
//! Libraries log from `warn` on, whatever the level.

#[cfg(windows)]
pub(crate) mod event_log;

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use tracing::{
    Dispatch, Level, Metadata, Subscriber, dispatcher, level_filters::LevelFilter,
    subscriber::SetGlobalDefaultError,
};
use tracing_subscriber::{Layer, filter::Targets, fmt::MakeWriter, layer::SubscriberExt};

use crate::{
    cli::{LogFlags, LogFormat, LogLevel},
    text::sanitize,
};

/// Where the lines go: writes one line of this level, which ends in a line feed.
pub(crate) type WriteLine = fn(Level, &[u8]) -> io::Result<()>;

/// Bytes that wait for stderr; more are dropped. A line that is longer fits into an empty queue.
const QUEUE_CAPACITY: usize = 1 << 20;
/// Counted for each line on top of its bytes.
const LINE_OVERHEAD: usize = 64;
/// Limit for the last lines of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    #[error("the thread cannot be started: {0}")]
    Thread(io::Error),
    #[error(transparent)]
    Subscriber(#[from] SetGlobalDefaultError),
}

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
        self.queue.close();
        // An error is the normal case: the thread drops its sender when the queue is empty.
        self.writer_ended.recv_timeout(FLUSH_TIMEOUT).ok();
    }
}

/// Call it once per process.
pub(crate) fn init(flags: LogFlags, write_line: WriteLine) -> Result<LogGuard, InitError> {
    let (queue, lines) = LineQueue::new(QUEUE_CAPACITY);
    let written = queue.clone();
    let (ended, writer_ended) = mpsc::channel();
    let direct = Dispatch::new(subscriber(flags, Lines(write_line)));
    let report = move |count| {
        dispatcher::with_default(&direct, || tracing::warn!(count, "log lines dropped"));
    };
    let write = move || {
        write_lines(&lines, &write_line, &written, report);
        drop(ended);
    };
    thread::Builder::new()
        .name("log".to_owned())
        .spawn(write)
        .map_err(InitError::Thread)?;
    tracing::subscriber::set_global_default(subscriber(flags, Lines(queue.clone())))?;
    Ok(LogGuard {
        queue,
        writer_ended,
    })
}

pub(crate) fn write_stderr(_level: Level, line: &[u8]) -> io::Result<()> {
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

fn subscriber<W>(flags: LogFlags, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let level = match flags.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target(env!("CARGO_CRATE_NAME"), level);
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

/// Accepts single lines.
trait LineSink {
    fn write_line(&self, level: Level, line: &[u8]) -> io::Result<()>;
}

impl<F: Fn(Level, &[u8]) -> io::Result<()>> LineSink for F {
    fn write_line(&self, level: Level, line: &[u8]) -> io::Result<()> {
        self(level, line)
    }
}

/// The output of a layer, which writes each line with a single call.
struct Lines<S>(S);

impl<'a, S: LineSink + 'a> MakeWriter<'a> for Lines<S> {
    type Writer = LineWriter<'a, S>;

    /// The layers call the other function.
    fn make_writer(&'a self) -> Self::Writer {
        let level = Level::INFO;
        LineWriter {
            level,
            sink: &self.0,
        }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        let level = *metadata.level();
        LineWriter {
            level,
            sink: &self.0,
        }
    }
}

/// Writes one line.
struct LineWriter<'a, S> {
    level: Level,
    sink: &'a S,
}

impl<S: LineSink> Write for LineWriter<'_, S> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.sink.write_line(self.level, line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Line {
    level: Level,
    text: Vec<u8>,
}

/// Never blocks: what does not fit is dropped and counted.
#[derive(Debug, Clone)]
struct LineQueue {
    /// `None` once the queue is closed.
    sender: Arc<Mutex<Option<Sender<Line>>>>,
    capacity: usize,
    queued_bytes: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

impl LineQueue {
    fn new(capacity: usize) -> (Self, Receiver<Line>) {
        let (sender, lines) = mpsc::channel();
        let queue = Self {
            sender: Arc::new(Mutex::new(Some(sender))),
            capacity,
            queued_bytes: Arc::default(),
            dropped: Arc::default(),
        };
        (queue, lines)
    }

    fn close(&self) {
        drop(
            self.sender
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }
}

impl LineSink for LineQueue {
    /// Values in the line may come from Azure, a collector or an Alertmanager.
    fn write_line(&self, level: Level, line: &[u8]) -> io::Result<()> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = &*sender else {
            return Ok(());
        };
        let text = sanitized(line);
        let size = text.len() + LINE_OVERHEAD;
        let queued = self.queued_bytes.load(Ordering::Relaxed);
        if queued > 0 && queued + size > self.capacity {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.queued_bytes.fetch_add(size, Ordering::Relaxed);
            // The writer ends only after the queue is closed.
            sender.send(Line { level, text }).ok();
        }
        Ok(())
    }
}

fn sanitized(line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let mut line = sanitize(text).into_owned().into_bytes();
    line.push(b'\n');
    line
}

/// Runs until the queue is closed and empty. A line that cannot be written counts as dropped.
fn write_lines(
    lines: &Receiver<Line>,
    output: &impl LineSink,
    queue: &LineQueue,
    report: impl Fn(u64),
) {
    let mut reported = 0;
    let mut report_dropped = || {
        let count = queue.dropped.load(Ordering::Relaxed);
        if count > reported {
            report(count - reported);
            reported = count;
        }
    };
    while let Ok(line) = lines.try_recv().or_else(|_| {
        report_dropped();
        lines.recv()
    }) {
        if output.write_line(line.level, &line.text).is_err() {
            queue.dropped.fetch_add(1, Ordering::Relaxed);
        }
        let size = line.text.len() + LINE_OVERHEAD;
        queue.queued_bytes.fetch_sub(size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, fmt::Write as _};

    use super::*;

    fn write(queue: &LineQueue, line: &[u8]) {
        queue.write_line(Level::INFO, line).unwrap();
    }

    /// The output for a closed queue, in its order.
    fn written(queue: &LineQueue, lines: &Receiver<Line>) -> String {
        queue.close();
        let output = RefCell::new(String::new());
        let write_line = |level: Level, line: &[u8]| {
            let text = std::str::from_utf8(line).unwrap();
            write!(output.borrow_mut(), "{level} {text}").unwrap();
            Ok(())
        };
        let report = |count| writeln!(output.borrow_mut(), "{count} dropped").unwrap();
        write_lines(lines, &write_line, queue, report);
        output.into_inner()
    }

    #[test]
    fn lines_keep_their_order_and_level() {
        let (queue, lines) = LineQueue::new(1_000);
        write(&queue, b"one\n");
        queue.write_line(Level::ERROR, b"two\n").unwrap();
        write(&queue, b"three\n");
        assert_eq!(written(&queue, &lines), "INFO one\nERROR two\nINFO three\n");
    }

    #[test]
    fn layers_pass_the_level_of_each_line() {
        let (queue, lines) = LineQueue::new(1_000);
        let flags = LogFlags {
            level: LogLevel::Info,
            format: LogFormat::Logfmt,
        };
        let subscriber = subscriber(flags, Lines(queue.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!("one");
            tracing::debug!("hidden");
            tracing::error!("two");
        });
        let output = written(&queue, &lines);
        let levels = output.lines().filter_map(|line| line.split(' ').next());
        assert_eq!(levels.collect::<Vec<_>>(), ["WARN", "ERROR"], "{output}");
    }

    #[test]
    fn lines_beyond_the_capacity_are_counted_and_reported_after_the_queued_ones() {
        let (queue, lines) = LineQueue::new(2 * (LINE_OVERHEAD + 4));
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            write(&queue, line.as_bytes());
        }
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 2);
        assert_eq!(written(&queue, &lines), "INFO one\nINFO two\n2 dropped\n");
    }

    #[test]
    fn a_long_line_fits_into_an_empty_queue_only() {
        let (queue, lines) = LineQueue::new(10);
        write(&queue, b"longer than ten bytes\n");
        write(&queue, b"no\n");
        assert_eq!(
            written(&queue, &lines),
            "INFO longer than ten bytes\n1 dropped\n"
        );
        assert_eq!(queue.queued_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn line_that_cannot_be_written_counts_as_dropped() {
        let (queue, lines) = LineQueue::new(2);
        write(&queue, b"line\n");
        queue.close();
        let fail = |_, _: &[u8]| Err(io::Error::from(io::ErrorKind::WriteZero));
        write_lines(&lines, &fail, &queue, |_| {});
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn closed_queue_ignores_lines() {
        let (queue, lines) = LineQueue::new(1);
        queue.close();
        write(&queue, b"line\n");
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 0);
        assert_eq!(written(&queue, &lines), "");
    }
}
