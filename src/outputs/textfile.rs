//! Writes the metrics of events and polling to a file for the textfile collector of `node_exporter`
//! (<https://github.com/prometheus/node_exporter#textfile-collector>).
//!
//! The file is replaced as a whole, and removed at the end of the exporter, so that no former value stays, unless another
//! exporter has written it since. It need not survive a crash of the system: it is not synchronised with the disk.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    metrics::{MetricSource, exposition::Format},
    schedule::Schedule,
};
use crate::{
    base::{file, system, worker::Worker},
    core::snapshot::Snapshot,
};

/// Between two writes while no event changes.
const INTERVAL: Duration = Duration::from_secs(15);

/// No running exporter writes a draft that is older.
const MIN_AGE: Duration = Duration::from_mins(1);

/// The file, which this process could write at its start.
#[derive(Debug)]
pub(crate) struct Textfile {
    path: PathBuf,
    /// Not that of another exporter, which may have the same process ID in its container.
    draft: PathBuf,
    /// What was written last.
    text: String,
    source: MetricSource,
    /// A file system that hangs must not block what is sent.
    worker: Worker,
}

impl Textfile {
    /// Writes the file for the first time.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn create(path: PathBuf, source: MetricSource, worker: Worker) -> io::Result<Self> {
        let snapshot = Snapshot::empty(None, source.clock.now());
        let id = fastrand::u32(..);
        let draft = path.with_added_extension(format!("{id:08x}.new"));
        remove_old_drafts(&path);
        let text = text(&source, &Arc::new(snapshot))?;
        write(&draft, &path, &text)?;
        info!(path = %path.display(), "metrics are written to a file");
        Ok(Self {
            path,
            draft,
            text,
            source,
            worker,
        })
    }

    /// Writes at each change of an event and every [`INTERVAL`] until `stop` is cancelled, then removes the file. Counts
    /// failures, and logs the first of consecutive ones.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let clock = self.source.clock;
        let mut schedule = Schedule::new(INTERVAL, clock.now().monotonic);
        let mut is_failing = false;
        while let Some(snapshot) = schedule.due(&mut self.source.snapshots, clock, &stop).await {
            let now = clock.now().monotonic;
            let written = self.replace(&snapshot).await;
            schedule.pushed(&snapshot, now, None);
            if let Err(error) = &written {
                let failures = &self.source.outputs.textfile_write_failures;
                failures.fetch_add(1, Ordering::Relaxed);
                if !is_failing {
                    warn!(path = %self.path.display(), %error, "metrics cannot be written to the file");
                }
            } else if is_failing {
                info!(path = %self.path.display(), "metrics are written to the file again");
            }
            is_failing = written.is_err();
        }
        let (path, text) = (self.path.clone(), self.text);
        let remove = move || {
            if fs::read(&path)? == text.as_bytes() {
                return fs::remove_file(path);
            }
            // That of another exporter.
            Ok(())
        };
        let removed = self.worker.run(remove).await;
        if let Some(Err(error)) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(path = %self.path.display(), %error, "the file of the metrics cannot be removed");
        }
    }

    async fn replace(&mut self, snapshot: &Arc<Snapshot>) -> io::Result<()> {
        let (draft, path) = (self.draft.clone(), self.path.clone());
        let text = text(&self.source, snapshot)?;
        let written = self
            .worker
            .run_while_awaited(move || write(&draft, &path, &text).map(|()| text))
            .await;
        self.text = written.unwrap_or_else(|| Err(io::Error::other("earlier writes hang")))?;
        Ok(())
    }
}

/// Removes what killed exporters have left.
fn remove_old_drafts(path: &Path) -> Option<()> {
    let path = std::path::absolute(path).ok()?;
    let prefix = format!("{}.", path.file_name()?.to_str()?);
    for entry in fs::read_dir(path.parent()?).ok()?.flatten() {
        let name = entry.file_name();
        let id = name
            .to_str()
            .and_then(|it| it.strip_prefix(&prefix)?.strip_suffix(".new"));
        let age = entry.metadata().and_then(|it| it.modified()).ok();
        let age = age.and_then(|at| at.elapsed().ok());
        if id.is_some_and(|id| id.len() == 8) && age > Some(MIN_AGE) {
            fs::remove_file(entry.path()).ok();
        }
    }
    Some(())
}

fn text(source: &MetricSource, snapshot: &Arc<Snapshot>) -> io::Result<String> {
    let text = source.scrape(snapshot).text(Format::Text);
    text.map_err(io::Error::other)
}

/// The file is readable for everybody: `node_exporter` runs as another user.
fn write(draft: &Path, path: &Path, text: &str) -> io::Result<()> {
    let written = file::create(draft, text.as_bytes())
        .and_then(|file| system::make_readable_for_all(&file))
        .and_then(|()| fs::rename(draft, path));
    if written.is_err() {
        // The next write removes it otherwise.
        fs::remove_file(draft).ok();
    }
    written
}
