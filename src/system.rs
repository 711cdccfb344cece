//! Platform differences: termination signals, the boot id, durable renames.

use std::{fs::File, io, path::Path};

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
        fs::{self, File},
        io,
        os::unix::fs::MetadataExt,
        path::Path,
    };

    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub(super) fn boot_id() -> Option<String> {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
    }

    pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
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
    use std::{fs::File, io, path::Path};

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
