//! What is of one system: how it tells the program to end, which boot this is, how a rename is made to last.

use std::{fs::File, io, path::Path};

/// Which boot of the VM this is: another id means that it was restarted meanwhile. `None` where the system does not say.
pub fn boot_id() -> Option<String> {
    platform::boot_id()
        .map(|id| id.trim().to_owned())
        .filter(|id| !id.is_empty())
}

/// Makes what was created, renamed or removed in a directory last.
///
/// # Errors
/// When the system could not.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    platform::sync_directory(directory)
}

/// Whether `path` is still the name of this open file.
pub fn is_named(file: &File, path: &Path) -> bool {
    platform::is_named(file, path)
}

/// Signals that mean "end".
#[derive(Debug)]
pub struct Signals(platform::Signals);

impl Signals {
    /// Begins to listen; from here on the signals no longer end the process by themselves.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> io::Result<Self> {
        platform::Signals::listen().map(Self)
    }

    /// Done when the next one has come.
    pub async fn next(&mut self) {
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

    /// The number that Windows counts up with each boot.
    pub(super) fn boot_id() -> Option<String> {
        const KEY: &str = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";
        let key = windows_registry::LOCAL_MACHINE.open(KEY).ok()?;
        key.get_u32("BootId").ok().map(|number| number.to_string())
    }

    /// NTFS writes its journal in order; there is no call for a directory.
    pub(super) fn sync_directory(_directory: &Path) -> io::Result<()> {
        Ok(())
    }

    /// The standard library tells files apart on Unix only; a name that is there is taken for that of the file.
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
