//! Programs that run in the background for as long as a test holds them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{wait_until, wait_until_for};

/// Kills its process when dropped, and prints the end of its log when the test has failed.
pub(crate) struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `program`; stdout and stderr go to a file in `folder`.
    ///
    /// The environment is empty except PATH and HOME, so that no variable of the machine changes the test.
    pub(crate) fn start<A: AsRef<OsStr>>(
        name: &'static str,
        program: &Path,
        args: impl IntoIterator<Item = A>,
        folder: &Path,
    ) -> Self {
        Self::start_with(name, program, args, &[], folder)
    }

    /// [`Daemon::start`] with more environment variables.
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

    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(&self.log).expect("the log file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Fails at once when the process has ended, so that no test waits for its deadline.
    pub(crate) fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().expect("the state of a child") {
            panic!("{} ended: {status}", self.name);
        }
    }

    /// The address of the TCP socket on `ip` that the process listens on, as soon as there is one.
    ///
    /// Started with port 0, a program gets a port from the kernel that no other program can take, but not every program
    /// logs it.
    pub(crate) async fn listening_on(&mut self, ip: Ipv4Addr) -> SocketAddrV4 {
        let what = format!("{} listens on {ip}", self.name);
        wait_until(&what, async || {
            self.assert_running();
            let sockets = listening_sockets(self.child.id());
            sockets.into_iter().find(|socket| *socket.ip() == ip)
        })
        .await
    }

    /// The address in the exporter's log line "listening", as soon as it is there.
    pub(crate) async fn logged_address(&mut self, deadline: Duration) -> String {
        let what = format!("{} logs its address", self.name);
        wait_until_for(deadline, &what, async || {
            self.assert_running();
            let log = self.log();
            // A line that is being written has no end yet.
            let mut lines = log
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let line = lines.find(|line| line.contains("listening"));
            let rest = line.and_then(|line| line.split_once("address="));
            let address = rest.and_then(|(_, rest)| rest.split_whitespace().next());
            let address = address.map(|address| address.trim_matches('"').to_owned());
            address.ok_or_else(String::new)
        })
        .await
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
            eprintln!("---- log of {} ----\n{}", self.name, tail.join("\n"));
        }
    }
}

/// The IPv4 sockets that a process listens on, from /proc.
fn listening_sockets(pid: u32) -> Vec<SocketAddrV4> {
    const LISTEN: &str = "0A";
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let links: Vec<PathBuf> = descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .collect();
    let table = fs::read_to_string("/proc/net/tcp").expect("/proc/net/tcp");
    let is_ours = |inode: &str| {
        let link = format!("socket:[{inode}]");
        links.iter().any(|found| found.as_os_str() == link.as_str())
    };
    table
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
            let (ip, port) = local.split_once(':')?;
            // The kernel prints the bytes of the address as a number of the machine's byte order.
            let ip = u32::from_str_radix(ip, 16).ok()?.to_ne_bytes();
            let port = u16::from_str_radix(port, 16).ok()?;
            (*state == LISTEN && is_ours(inode)).then(|| SocketAddrV4::new(ip.into(), port))
        })
        .collect()
}
