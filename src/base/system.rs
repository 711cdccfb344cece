//! Platform differences: signals, delays of the process, the boot and its id, file descriptors, closed pipes, private files,
//! durable renames.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

pub(crate) use self::platform::{
    Signals, boot_id, is_named, make_private_directory, make_readable_for_all, private_file,
    readable_file, stdout_closed,
};

/// True if nobody reads the pipe that was written.
pub fn is_closed_pipe(error: &io::Error) -> bool {
    /// Has no kind in the standard library.
    const ERROR_PIPE_NOT_CONNECTED: i32 = 233;
    let is_unconnected = cfg!(windows) && error.raw_os_error() == Some(ERROR_PIPE_NOT_CONNECTED);
    is_unconnected || error.kind() == io::ErrorKind::BrokenPipe
}

/// The number of files that this process may have open at a time, on Linux: the soft limit. Windows has no limit of this
/// kind.
pub(crate) fn max_open_files() -> Option<usize> {
    let limits = proc_line("/proc/self/limits", "Max open files")?;
    limits.split_whitespace().next()?.parse().ok()
}

/// When the operating system was booted, on Linux, in whole seconds.
pub(crate) fn booted_at() -> Option<SystemTime> {
    let seconds = proc_line("/proc/stat", "btime ")?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// What follows `start` in a line of a file of Linux, without white space at its ends.
fn proc_line(path: &str, start: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    Some(
        lines
            .find_map(|line| line.strip_prefix(start))?
            .trim()
            .to_owned(),
    )
}

pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    // NTFS journals metadata in order and has no fsync for directories.
    if cfg!(windows) {
        return Ok(());
    }
    File::open(directory)?.sync_all()
}

/// True if the process was started without stdout (`>&-`); not known on Windows. The standard library has opened
/// `/dev/null` in its place, for reading and writing, as nobody does who redirects an output.
pub(crate) fn is_stdout_missing() -> bool {
    const O_ACCMODE: i32 = 0o3;
    const O_RDWR: i32 = 0o2;
    let is_null = fs::read_link("/proc/self/fd/1").is_ok_and(|path| path == *"/dev/null");
    let flags = proc_line("/proc/self/fdinfo/1", "flags:");
    let flags = flags.and_then(|flags| i32::from_str_radix(&flags, 8).ok());
    is_null && flags.is_some_and(|flags| flags & O_ACCMODE == O_RDWR)
}

/// Ignores the signal about a file that has reached its size limit (`RLIMIT_FSIZE`), which ends the process by default.
/// The write returns an error. Needs a tokio runtime only for this call: the handler does nothing, and stays installed
/// when the receiver is dropped.
pub(crate) fn ignore_file_size_signal() -> io::Result<()> {
    #[cfg(unix)]
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(libc::SIGXFSZ))
        .map(drop)?;
    Ok(())
}

/// What kept this process from running. Nothing is known on Windows.
#[derive(Debug)]
pub(crate) struct ProcessDelays {
    continued: Arc<AtomicBool>,
    /// Of the thread that made this. Open, since it is read at each poll.
    schedstat: Option<File>,
    waited: Duration,
}

impl ProcessDelays {
    /// Of the calling thread.
    pub(crate) fn watch() -> Self {
        let continued = Arc::new(AtomicBool::new(false));
        // Without it, a stop looks like an interruption of the VM.
        #[cfg(unix)]
        signal_hook::flag::register(libc::SIGCONT, Arc::clone(&continued)).ok();
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let waited = run_queue_wait(schedstat.as_ref());
        Self {
            continued,
            schedstat,
            waited,
        }
    }

    /// Since the last call: how long the thread waited for a processor, and whether the process was stopped.
    pub(crate) fn take(&mut self) -> (Duration, bool) {
        let waited = run_queue_wait(self.schedstat.as_ref());
        let before = std::mem::replace(&mut self.waited, waited);
        let was_stopped = self.continued.swap(false, Ordering::Relaxed);
        (self.waited.saturating_sub(before), was_stopped)
    }
}

/// How long a thread has waited for a processor, on Linux: the second number of
/// <https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat>, in nanoseconds.
fn run_queue_wait(schedstat: Option<&File>) -> Duration {
    let mut text = [0; 64];
    let nanos = schedstat.and_then(|mut file| {
        file.rewind().ok()?;
        let length = file.read(&mut text).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        text.split_whitespace().nth(1)?.parse().ok()
    });
    nanos.map_or(Duration::ZERO, Duration::from_nanos)
}

#[cfg(unix)]
mod platform {
    use std::{
        fs::{self, DirBuilder, File, OpenOptions, Permissions},
        future::pending,
        io,
        os::{
            fd::AsFd as _,
            unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt as _},
        },
        path::Path,
    };

    use tokio::{
        io::Interest,
        net::unix::pipe::Sender,
        signal::unix::{Signal, SignalKind, signal},
    };

    pub(crate) fn boot_id() -> Option<String> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        text.split_whitespace().next().map(str::to_owned)
    }

    /// Options for a file that belongs to this process: only its owner can use it, a symbolic link in its place is not
    /// followed, and a FIFO in its place does not block.
    pub(crate) fn private_file() -> OpenOptions {
        let mut options = File::options();
        options
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        options
    }

    /// Options for a file of somebody else: a FIFO in its place does not block.
    pub(crate) fn readable_file() -> OpenOptions {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        options
    }

    /// Whatever the umask is.
    pub(crate) fn make_readable_for_all(file: &File) -> io::Result<()> {
        file.set_permissions(Permissions::from_mode(0o644))
    }

    /// Creates a directory and its parents for their owner only. An existing one keeps its mode.
    pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true).create(path)
    }

    /// True if `path` still refers to this open file.
    pub(crate) fn is_named(file: &File, path: &Path) -> bool {
        let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else {
            return false;
        };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }

    /// Waits until nobody can read what is written to stdout: the other end of the pipe is closed.
    pub(crate) async fn stdout_closed() {
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        // Not checked: it stays in blocking mode for those who write, and may be a terminal. Files cannot be observed.
        match stdout.and_then(Sender::from_owned_fd_unchecked) {
            Ok(pipe) => drop(pipe.ready(Interest::ERROR).await),
            Err(_) => pending().await,
        }
    }

    #[derive(Debug)]
    pub(crate) struct Signals {
        interrupt: Signal,
        terminate: Signal,
        /// `None` under `nohup`, which asks to ignore this signal.
        hangup: Option<Signal>,
    }

    impl Signals {
        /// Replaces the default action of the signals, which ends the process.
        pub(crate) fn listen() -> io::Result<Self> {
            let hangup = (!is_ignored(SignalKind::hangup())).then(|| signal(SignalKind::hangup()));
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: hangup.transpose()?,
            })
        }

        /// Ignores the hangup signal, by which other services reload their configuration, and a terminal says that it
        /// ends.
        pub(crate) fn ignoring_hangup(self) -> Self {
            Self {
                hangup: None,
                ..self
            }
        }

        pub(crate) async fn next(&mut self) {
            let hangup = async {
                match &mut self.hangup {
                    Some(hangup) => hangup.recv().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
                _ = hangup => {}
            }
        }
    }

    /// True if the process was started with this signal ignored.
    fn is_ignored(kind: SignalKind) -> bool {
        let bit = kind.as_raw_value() - 1;
        let mask = super::proc_line("/proc/self/status", "SigIgn:");
        let mask = mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        mask.is_some_and(|mask| mask >> bit & 1 == 1)
    }
}

#[cfg(windows)]
mod platform {
    use std::{
        fs::{self, File, OpenOptions},
        io,
        os::windows::fs::OpenOptionsExt,
        path::Path,
    };

    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
    };

    /// A counter that Windows increments with each boot.
    pub(crate) fn boot_id() -> Option<String> {
        const KEY: &str = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";
        let key = windows_registry::LOCAL_MACHINE.open(KEY).ok()?;
        key.get_u32("BootId").ok().map(|number| number.to_string())
    }

    /// Access follows the access control list of the directory.
    pub(crate) fn private_file() -> OpenOptions {
        /// Opens a symbolic link itself
        /// (<https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-createfilew>).
        const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
        let mut options = File::options();
        options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
        options
    }

    pub(crate) fn readable_file() -> OpenOptions {
        let mut options = File::options();
        options.read(true);
        options
    }

    pub(crate) fn make_readable_for_all(_: &File) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    /// The standard library exposes file identity only on Unix; any existing file is accepted.
    pub(crate) fn is_named(_file: &File, path: &Path) -> bool {
        path.exists()
    }

    /// Windows tells of a closed pipe only when it is written.
    pub(crate) async fn stdout_closed() {
        std::future::pending().await
    }

    #[derive(Debug)]
    pub(crate) struct Signals {
        c: CtrlC,
        pause: CtrlBreak,
        close: CtrlClose,
        shutdown: CtrlShutdown,
    }

    impl Signals {
        pub(crate) fn listen() -> io::Result<Self> {
            Ok(Self {
                c: ctrl_c()?,
                pause: ctrl_break()?,
                close: ctrl_close()?,
                shutdown: ctrl_shutdown()?,
            })
        }

        /// Windows has no hangup signal.
        pub(crate) fn ignoring_hangup(self) -> Self {
            self
        }

        pub(crate) async fn next(&mut self) {
            tokio::select! {
                _ = self.c.recv() => {}
                _ = self.pause.recv() => {}
                _ = self.close.recv() => {}
                _ = self.shutdown.recv() => {}
            }
        }
    }
}
