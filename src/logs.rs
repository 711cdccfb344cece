//! Log lines on stderr, in logfmt or as JSON.
//!
//! A separate thread writes the lines, so that a stderr whose reader has stopped cannot block the event loop. The queue
//! in front of it is bounded. Lines that find it full are dropped and counted, and a warning reports them as soon as
//! the queue is empty again.
//!
//! Libraries log from `warn` on, whatever the level.

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
    Dispatch, Subscriber, dispatcher, level_filters::LevelFilter, subscriber::SetGlobalDefaultError,
};
use tracing_subscriber::{Layer, filter::Targets, fmt::MakeWriter, layer::SubscriberExt};

use crate::{
    cli::{LogFlags, LogFormat, LogLevel},
    text::sanitize,
};

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
pub(crate) fn init(flags: LogFlags) -> Result<LogGuard, InitError> {
    let (queue, lines) = LineQueue::new(QUEUE_CAPACITY);
    let written = queue.clone();
    let (ended, writer_ended) = mpsc::channel();
    let direct = Dispatch::new(subscriber(flags, io::stderr));
    let report = move |count| {
        dispatcher::with_default(&direct, || tracing::warn!(count, "log lines dropped"));
    };
    let write = move || {
        write_lines(&lines, io::stderr(), &written, report);
        drop(ended);
    };
    thread::Builder::new()
        .name("log".to_owned())
        .spawn(write)
        .map_err(InitError::Thread)?;
    let lines = queue.clone();
    tracing::subscriber::set_global_default(subscriber(flags, move || lines.clone()))?;
    Ok(LogGuard {
        queue,
        writer_ended,
    })
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

/// Never blocks: what does not fit is dropped and counted.
#[derive(Debug, Clone)]
struct LineQueue {
    /// `None` once the queue is closed.
    sender: Arc<Mutex<Option<Sender<Vec<u8>>>>>,
    capacity: usize,
    queued_bytes: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

impl LineQueue {
    fn new(capacity: usize) -> (Self, Receiver<Vec<u8>>) {
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

/// The layers write each line with a single call. Values in it may come from Azure, a collector or an Alertmanager.
impl Write for LineQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = &*sender else {
            return Ok(line.len());
        };
        let shown = sanitized(line);
        let size = shown.len() + LINE_OVERHEAD;
        let queued = self.queued_bytes.load(Ordering::Relaxed);
        if queued > 0 && queued + size > self.capacity {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.queued_bytes.fetch_add(size, Ordering::Relaxed);
            // The writer ends only after the queue is closed.
            sender.send(shown).ok();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
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
    lines: &Receiver<Vec<u8>>,
    mut output: impl Write,
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
        if output.write_all(&line).is_err() {
            queue.dropped.fetch_add(1, Ordering::Relaxed);
        }
        let size = line.len() + LINE_OVERHEAD;
        queue.queued_bytes.fetch_sub(size, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows what was written, and in which order.
    #[derive(Debug, Clone, Default)]
    struct Output(Arc<Mutex<String>>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = std::str::from_utf8(bytes).unwrap();
            self.0.lock().unwrap().push_str(text);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The output for a closed queue.
    fn written(queue: &LineQueue, lines: &Receiver<Vec<u8>>) -> String {
        queue.close();
        let output = Output::default();
        let report = |count| writeln!(output.clone(), "{count} dropped").unwrap();
        write_lines(lines, output.clone(), queue, report);
        output.0.lock().unwrap().clone()
    }

    #[test]
    fn lines_keep_their_order() {
        let (mut queue, lines) = LineQueue::new(1_000);
        for line in ["one\n", "two\n", "three\n"] {
            queue.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(written(&queue, &lines), "one\ntwo\nthree\n");
    }

    #[test]
    fn lines_beyond_the_capacity_are_counted_and_reported_after_the_queued_ones() {
        let (mut queue, lines) = LineQueue::new(2 * (LINE_OVERHEAD + 4));
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            queue.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 2);
        assert_eq!(written(&queue, &lines), "one\ntwo\n2 dropped\n");
    }

    #[test]
    fn a_long_line_fits_into_an_empty_queue_only() {
        let (mut queue, lines) = LineQueue::new(10);
        queue.write_all(b"longer than ten bytes\n").unwrap();
        queue.write_all(b"no\n").unwrap();
        assert_eq!(
            written(&queue, &lines),
            "longer than ten bytes\n1 dropped\n"
        );
        assert_eq!(queue.queued_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn line_that_cannot_be_written_counts_as_dropped() {
        let (mut queue, lines) = LineQueue::new(2);
        queue.write_all(b"line\n").unwrap();
        queue.close();
        write_lines(&lines, &mut [][..], &queue, |_| {});
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn closed_queue_ignores_lines() {
        let (mut queue, lines) = LineQueue::new(1);
        queue.close();
        queue.write_all(b"line\n").unwrap();
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 0);
        assert_eq!(written(&queue, &lines), "");
    }
}
