//! `watch`: prints each transition of an event as one line of JSON, from the exporter on this machine.

mod exporter_client;
mod printed;

use std::{
    fs::{self, File, TryLockError},
    io::{self, ErrorKind, Write as _},
    mem::{Discriminant, discriminant},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use self::{
    exporter_client::{ExporterClient, ReadError},
    printed::{News, Printed, Step, TransitionsAnswer},
};
use crate::{
    base::{
        file::{self, Filesystem as _, OsFilesystem},
        system::{is_closed_pipe, is_stdout_missing, stdout_closed},
        text::excerpt,
        time::Timestamp,
        worker::Worker,
    },
    http::client::MAX_MESSAGE,
    program::{CommandError, cli::WatchFlags, flag_error},
};

/// Between an answer and the next request: that of the exporter's polls.
const INTERVAL: Duration = Duration::from_secs(1);
/// After an answer with an error status: a check of a wrong password takes 80 ms of the exporter's CPU time.
const REFUSED_INTERVAL: Duration = Duration::from_secs(5);

/// How long the end waits for the lines and the file of `--since`, if they are being written: the next run repeats lines
/// that the file does not have. A reader that does not read delays the end by this time.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Far more than the file of `--since` has.
const MAX_SINCE_BYTES: u64 = 64 << 10;

/// Prints transitions until a signal, or until nobody reads them.
pub(super) async fn run(flags: &WatchFlags) -> Result<String, CommandError> {
    if is_stdout_missing() {
        return Err(CommandError::system(
            "cannot write to stdout",
            &"it is closed",
        ));
    }
    let mut signals = super::signals()?;
    let (since, printed) = match flags.since.as_deref().map(SinceFile::open).transpose()? {
        Some((file, printed)) => (Some(file), printed),
        None => (None, None),
    };
    let mut watch = Watch {
        client: ExporterClient::new(flags)?,
        stdout: Worker::start("stdout")
            .map_err(|cause| CommandError::system("cannot start a thread", &cause))?,
        all: flags.all,
        since,
        is_saved: true,
        after: number(printed.as_ref()),
        printed,
        failure: None,
        name_doubt: None,
    };
    let watched = async {
        loop {
            let interval = watch.poll().await?;
            sleep(interval).await;
        }
    };
    let result: io::Result<()> = tokio::select! {
        result = watched => result,
        () = signals.next() => Ok(()),
        () = stdout_closed() => Ok(()),
    };
    timeout(END_TIMEOUT, watch.stdout.run(|| ())).await.ok();
    match result {
        Err(error) if !is_closed_pipe(&error) => {
            Err(CommandError::system("cannot write to stdout", &error))
        }
        _ => Ok(String::new()),
    }
}

fn number(printed: Option<&Printed>) -> Option<u64> {
    printed.map(|printed| printed.number)
}

struct Watch {
    client: ExporterClient,
    /// Writes the lines and the file: a reader that does not read must not delay the end by a signal.
    stdout: Worker,
    all: bool,
    since: Option<SinceFile>,
    /// The last write of `since` succeeded.
    is_saved: bool,
    /// `None` before the first answer of all runs with this file.
    printed: Option<Printed>,
    /// The next request is for what follows this number, or for everything.
    after: Option<u64>,
    /// The kind of the failure of the last request.
    failure: Option<Discriminant<ReadError>>,
    /// What was logged last about the name of this VM.
    name_doubt: Option<&'static str>,
}

impl Watch {
    /// Returns the time until the next request.
    async fn poll(&mut self) -> io::Result<Duration> {
        let read = self.client.read(self.after).await;
        let read = read.and_then(|body| self.advance(&body));
        let mut interval = match &read {
            Err(ReadError::Status(_)) => REFUSED_INTERVAL,
            _ => INTERVAL,
        };
        let failure = read.as_ref().err().map(discriminant);
        let was_failure = std::mem::replace(&mut self.failure, failure);
        match read {
            Ok(step) => {
                if was_failure.is_some() {
                    info!("the exporter is read again");
                }
                match step {
                    Step::Wait => {}
                    Step::Ask(after) => {
                        // At once, but not again and again if two exporters answer in turn.
                        if self.after == number(self.printed.as_ref()) {
                            interval = Duration::ZERO;
                        }
                        self.after = after;
                    }
                    Step::Print(printed, news) => {
                        self.print(news, &printed).await?;
                        self.printed = Some(printed);
                        self.after = number(self.printed.as_ref());
                    }
                }
            }
            Err(error) if was_failure != failure => {
                warn!(url = %self.client.url, %error, "the exporter cannot be read");
            }
            Err(_) => {}
        }
        Ok(interval)
    }

    fn advance(&mut self, body: &[u8]) -> Result<Step, ReadError> {
        // It may repeat a text of any length.
        let invalid =
            |error: serde_json::Error| ReadError::Body(excerpt(&error.to_string(), MAX_MESSAGE));
        let answer: TransitionsAnswer<'_> = serde_json::from_slice(body).map_err(invalid)?;
        let doubt = if answer.vm.name_mismatch {
            Some(
                "--vm.name of the exporter differs from the name in instance metadata: events with either name are printed, and nothing is approved",
            )
        } else if answer.vm.name.is_none() && !self.all {
            Some("the exporter does not know the name of this VM yet: no event is known to name it")
        } else {
            None
        };
        if let Some(doubt) = doubt.filter(|_| self.name_doubt != doubt) {
            warn!("{doubt}");
        }
        self.name_doubt = doubt;
        let step = Printed::advance(self.printed.as_ref(), self.after, &answer, self.all);
        step.map_err(invalid)
    }

    /// Prints the lines, then saves what is printed: a line is repeated by the next run rather than lost.
    async fn print(&mut self, news: News, printed: &Printed) -> io::Result<()> {
        if let Some(gap) = news.gap {
            warn!("{gap}");
        }
        let is_new = self.printed.as_ref() != Some(printed) || !self.is_saved;
        let save = match &self.since {
            Some(file) if is_new => Some((file.clone(), serde_json::to_vec(printed)?)),
            _ => None,
        };
        if news.lines.is_empty() && save.is_none() {
            return Ok(());
        }
        let write = move || {
            let mut stdout = io::stdout().lock();
            let written = stdout.write_all(news.lines.as_bytes());
            written.and_then(|()| stdout.flush())?;
            Ok(save.map_or(Ok(()), |(file, content)| file.write(&content)))
        };
        let written = self.stdout.run(write).await;
        let saved =
            written.unwrap_or_else(|| Err(io::Error::other("the thread that writes has ended")))?;
        if let Err(error) = &saved
            && self.is_saved
        {
            warn!(%error, "--since cannot be written: a later run repeats lines; retrying");
        }
        self.is_saved = saved.is_ok();
        Ok(())
    }
}

/// The file of `--since`: what earlier runs have printed.
#[derive(Debug, Clone)]
struct SinceFile {
    /// Absolute, since its directory is synchronised.
    path: PathBuf,
    /// `None` where no file can be created, which the first write says.
    _lock: Option<Arc<File>>,
}

impl SinceFile {
    /// Opens the file and reads what it says; `None` where there is no file yet, or an empty one. One that was not
    /// written by this version, or not to its end, is kept under another name.
    fn open(path: &Path) -> Result<(Self, Option<Printed>), CommandError> {
        let error = |why: String| flag_error("since", format!("{} {why}", path.display()));
        let absolute = std::path::absolute(path).map_err(|cause| error(cause.to_string()))?;
        let directory = absolute.parent().unwrap_or(&absolute);
        if !directory.is_dir() {
            return Err(error("is not in a directory that exists".to_owned()));
        }
        if fs::symlink_metadata(&absolute).is_ok_and(|it| !it.is_file()) {
            return Err(error("is not a regular file".to_owned()));
        }
        // Not the file itself, which each write replaces.
        let lock = match file::lock(&absolute.with_added_extension("lock")) {
            Ok(lock) => Some(Arc::new(lock)),
            Err(TryLockError::Error(_)) => None,
            Err(TryLockError::WouldBlock) => {
                return Err(CommandError::system(
                    &format!("--since: {}", path.display()),
                    &"another watch uses this file: give each its own",
                ));
            }
        };
        let printed = read_since(&absolute).map_err(error)?;
        let file = Self {
            path: absolute,
            _lock: lock,
        };
        Ok((file, printed))
    }

    fn write(&self, content: &[u8]) -> io::Result<()> {
        file::replace(&mut OsFilesystem, &self.path, content)
    }
}

fn read_since(path: &Path) -> Result<Option<Printed>, String> {
    match OsFilesystem.read(path, MAX_SINCE_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() != ErrorKind::FileTooLarge => {
            return Err(format!("cannot be read: {error}"));
        }
        // As `mktemp` leaves it.
        Ok(content) if content.is_empty() => return Ok(None),
        Ok(content) => {
            let printed = Printed::from_json(&content);
            if printed.is_some() {
                return Ok(printed);
            }
        }
        Err(_) => {}
    }
    let time = Timestamp::now().as_unix_seconds();
    let kept_as = path.with_added_extension(format!("unreadable-{time:.0}"));
    fs::rename(path, &kept_as).map_err(|cause| format!("cannot be renamed: {cause}"))?;
    let (path, kept_as) = (path.display(), kept_as.display());
    warn!(%path, %kept_as, "the file of --since is damaged or of another version: beginning anew");
    Ok(None)
}
