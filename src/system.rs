//! Platform differences: termination signals, the boot id, durable renames.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    io,
    path::Path,
};

/// Identifies the current boot; changes when the VM restarts. `None` if the platform has none.
pub(crate) fn boot_id() -> Option<String> {
    platform::boot_id()
        .map(|id| id.trim().to_owned())
        .filter(|id| !id.is_empty())
}

/// Makes creations, renames and removals in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    platform::sync_directory(directory)
}

/// Options for a file that belongs to this process: only its owner can use it, a symbolic link in its place is not
/// followed, and a FIFO in its place does not block.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = File::options();
    platform::restrict_file(&mut options);
    options
}

/// Creates a directory and its parents for their owner only. An existing one keeps its mode.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    platform::restrict_directory(&mut builder);
    builder.recursive(true).create(path)
}

/// True if `path` still refers to this open file.
pub(crate) fn is_named(file: &File, path: &Path) -> bool {
    platform::is_named(file, path)
}

/// Termination signals.
#[derive(Debug)]
pub(crate) struct Signals(platform::Signals);

impl Signals {
    /// Replaces the default action of the signals, which ends the process.
    pub(crate) fn listen() -> io::Result<Self> {
        platform::Signals::listen().map(Self)
    }

    pub(crate) async fn next(&mut self) {
        self.0.next().await;
    }
}

#[cfg(unix)]
mod platform {
    use std::{
        fs::{self, DirBuilder, File, OpenOptions},
        io,
        os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
        path::Path,
    };

    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub(super) fn boot_id() -> Option<String> {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
    }

    pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    pub(super) fn restrict_file(options: &mut OpenOptions) {
        options
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }

    pub(super) fn restrict_directory(builder: &mut DirBuilder) {
        builder.mode(0o700);
    }

    pub(super) fn is_named(file: &File, path: &Path) -> bool {
        let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else {
            return false;
        };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }

    #[derive(Debug)]
    pub(super) struct Signals {
        interrupt: Signal,
        terminate: Signal,
    }

    impl Signals {
        pub(super) fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        }

        pub(super) async fn next(&mut self) {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
        }
    }
}

#[cfg(windows)]
mod platform {
    use std::{
        fs::{DirBuilder, File, OpenOptions},
        io,
        os::windows::fs::OpenOptionsExt,
        path::Path,
    };

    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
    };

    /// A counter that Windows increments with each boot.
    pub(super) fn boot_id() -> Option<String> {
        const KEY: &str = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";
        let key = windows_registry::LOCAL_MACHINE.open(KEY).ok()?;
        key.get_u32("BootId").ok().map(|number| number.to_string())
    }

    /// NTFS journals metadata in order and has no fsync for directories.
    pub(super) fn sync_directory(_directory: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Access follows the access control list of the directory.
    pub(super) fn restrict_file(options: &mut OpenOptions) {
        /// Opens a symbolic link itself (<https://learn.microsoft.com/windows/win32/api/fileapi/nf-fileapi-createfilew>).
        const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x0020_0000;
        options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT);
    }

    pub(super) fn restrict_directory(_builder: &mut DirBuilder) {}

    /// The standard library exposes file identity only on Unix; any existing file is accepted.
    pub(super) fn is_named(_file: &File, path: &Path) -> bool {
        path.exists()
    }

    #[derive(Debug)]
    pub(super) struct Signals {
        c: CtrlC,
        pause: CtrlBreak,
        close: CtrlClose,
        shutdown: CtrlShutdown,
    }

    impl Signals {
        pub(super) fn listen() -> io::Result<Self> {
            Ok(Self {
                c: ctrl_c()?,
                pause: ctrl_break()?,
                close: ctrl_close()?,
                shutdown: ctrl_shutdown()?,
            })
        }

        pub(super) async fn next(&mut self) {
            tokio::select! {
                _ = self.c.recv() => {}
                _ = self.pause.recv() => {}
                _ = self.close.recv() => {}
                _ = self.shutdown.recv() => {}
            }
        }
    }
}
