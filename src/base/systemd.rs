//! The messages of a service to systemd: it is ready, and it does not hang
//! (<https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>).

use std::{io, time::Duration};

/// Does not block: if nobody reads the socket, the message is lost, which is an error.
#[cfg(target_os = "linux")]
#[expect(
    clippy::disallowed_methods,
    reason = "the environment names the socket"
)]
pub(crate) fn notify_running() -> io::Result<()> {
    use std::os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    };

    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(&socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(b"READY=1\nWATCHDOG=1\n", &address)?;
    Ok(())
}

/// After this time without [`notify_running`], systemd restarts the process. `None`: it does not.
#[expect(clippy::disallowed_methods, reason = "the environment is the setting")]
pub(crate) fn watchdog_timeout() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_other_process =
        number("WATCHDOG_PID").is_some_and(|it| it != u64::from(std::process::id()));
    let timeout = number("WATCHDOG_USEC").filter(|_| !is_other_process);
    timeout.map(Duration::from_micros)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn notify_running() -> io::Result<()> {
    Ok(())
}
