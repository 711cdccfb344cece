//! Listen addresses in the format of the Prometheus exporters, and their sockets.

use std::{
    fmt, io,
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs},
    str::FromStr,
};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that wait for an accept; the system may allow fewer (Linux: `net.core.somaxconn`). A client whose
/// connection finds no room here tries again only after a second.
const BACKLOG: i32 = 4096;

/// Bytes per connection; Linux doubles the value for its own overhead.
const SEND_BUFFER: usize = 128 * 1024;

/// `host:port`. An empty host stands for all IPv4 and IPv6 addresses of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// `None` stands for all addresses.
    host: Option<String>,
    port: u16,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error = |why: &str| format!("{text:?} {why}: use HOST:PORT, :PORT or [IPV6]:PORT");
        let (host, port) = text.rsplit_once(':').ok_or_else(|| error("has no port"))?;
        let port = port
            .parse()
            .map_err(|_| error("has no port between 0 and 65535"))?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest
                    .strip_suffix(']')
                    .ok_or_else(|| error("has an open bracket"))?;
                inner
                    .parse::<Ipv6Addr>()
                    .map_err(|_| error("has no IPv6 address in its brackets"))?;
                inner
            }
            None if host.contains(':') => {
                return Err(error("is ambiguous, an IPv6 address needs brackets"));
            }
            None => host,
        };
        Ok(Self {
            host: (!host.is_empty()).then(|| host.to_owned()),
            port,
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
            None => write!(f, ":{}", self.port),
        }
    }
}

impl ListenAddress {
    /// The name or IP address, if there is one.
    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// True for `localhost` and loopback IP addresses.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host.as_deref();
        let is_loopback_ip = |host: &str| host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        host.is_some_and(|host| host.eq_ignore_ascii_case("localhost") || is_loopback_ip(host))
    }

    /// # Errors
    /// If the name cannot be resolved, or the port is in use or not permitted.
    pub(crate) fn bind(&self) -> io::Result<TcpListener> {
        let Some(host) = &self.host else {
            // One socket for both families, or an IPv4 socket if IPv6 is disabled.
            let all = |ip: IpAddr| open(SocketAddr::new(ip, self.port));
            return all(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| match error.kind() {
                io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
                _ => all(std::net::Ipv4Addr::UNSPECIFIED.into()),
            });
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (host.as_str(), self.port).to_socket_addrs()? {
            match open(address) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// How to fix an address that cannot be bound.
pub(crate) fn bind_hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "choose another port, or stop the process that uses this one",
        io::ErrorKind::PermissionDenied => "choose a port from 1024 up",
        _ => "choose an address that this machine has, such as :10169 for all addresses",
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false)?;
    }
    // A restart must not wait for old connections. On Windows, the option would let two programs share a port.
    if cfg!(unix) {
        socket.set_reuse_address(true)?;
    }
    // Connections inherit it. The system would let the buffer of a client that does not read grow to megabytes.
    if cfg!(unix) {
        socket.set_send_buffer_size(SEND_BUFFER)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_other_exporters_are_accepted() {
        for text in [
            ":10169",
            "127.0.0.1:10169",
            "[::]:10169",
            "[::1]:0",
            "localhost:9100",
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_address_is_rejected_with_a_hint() {
        for text in [
            "",
            "10169",
            "localhost",
            "::1:9100",
            "[::1:9100",
            "[x]:1",
            ":99999",
            "localhost:",
        ] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn loopback_addresses_are_recognised() {
        let is = |text: &str| text.parse::<ListenAddress>().unwrap().is_loopback();
        assert!(is("127.0.0.1:1") && is("[::1]:1") && is("localhost:1") && is("127.1.2.3:1"));
        assert!(!is(":1") && !is("0.0.0.0:1") && !is("[::]:1") && !is("example.com:1"));
    }

    #[test]
    fn empty_host_listens_on_both_address_families() {
        let listener = ":0".parse::<ListenAddress>().unwrap().bind().unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    }
}
