//! A program that runs in the background for as long as a test holds it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Ends its process when dropped, and shows what the process said when the test failed.
pub(crate) struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `program`; both its outputs go to a file in `folder`.
    ///
    /// The environment is a bare one, so that no variable of the machine changes what a test means.
    pub(crate) fn start<A: AsRef<OsStr>>(
        name: &'static str,
        program: &Path,
        args: impl IntoIterator<Item = A>,
        folder: &Path,
    ) -> Self {
        Self::start_with(name, program, args, &[], folder)
    }

    /// [`Daemon::start`] with variables of one's own.
    pub(crate) fn start_with<A: AsRef<OsStr>>(
        name: &'static str,
        program: &Path,
        args: impl IntoIterator<Item = A>,
        variables: &[(&str, &OsStr)],
        folder: &Path,
    ) -> Self {
        let log = folder.join(format!("{name}.log"));
        let out = File::create(&log).expect("a log file");
        let child = Command::new(program)
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", folder)
            .envs(variables.iter().copied())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("a second handle"))
            .stderr(out)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()));
        Self { name, child, log }
    }

    /// All that the process has said so far.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(&self.log).expect("the log file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Fails at once when the process is gone: no test should wait for the dead.
    pub(crate) fn must_run(&mut self) {
        if let Some(status) = self.child.try_wait().expect("the state of a child") {
            panic!("{} ended: {status}", self.name);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail only when the process has ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(60)..];
            eprintln!("---- {} said ----\n{}", self.name, tail.join("\n"));
        }
    }
}
