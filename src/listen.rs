//! Addresses to serve on, as the Prometheus exporters write them, and sockets from them.

use std::{
    fmt, io,
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs},
    str::FromStr,
};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// `host:port`; an empty host is every address of the machine, IPv4 and IPv6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    /// `None`: every address.
    host: Option<String>,
    port: u16,
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |why: &str| format!("{text:?} {why}: write it as HOST:PORT, :PORT or [IPV6]:PORT");
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("has no port"))?;
        let port = port
            .parse()
            .map_err(|_| wrong("has no port between 0 and 65535"))?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let inner = rest
                    .strip_suffix(']')
                    .ok_or_else(|| wrong("has an open bracket"))?;
                inner
                    .parse::<Ipv6Addr>()
                    .map_err(|_| wrong("has no IPv6 address in its brackets"))?;
                inner
            }
            None if host.contains(':') => {
                return Err(wrong("is ambiguous, an IPv6 address needs brackets"));
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
    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        let host = self.host.as_deref();
        let is_loopback_ip = |host: &str| host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        host.is_some_and(|host| host.eq_ignore_ascii_case("localhost") || is_loopback_ip(host))
    }

    /// Opens the socket.
    ///
    /// # Errors
    /// When the name is unknown, or the port is in use or not permitted.
    pub fn bind(&self) -> io::Result<TcpListener> {
        let Some(host) = &self.host else {
            // One socket for both families; where IPv6 is switched off, IPv4 alone.
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

/// What to do about an address that cannot be bound.
pub fn mend(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "choose another port, or end what uses this one",
        io::ErrorKind::PermissionDenied => "choose a port from 1024 up",
        _ => "choose an address that this machine has, such as :10169 for all of them",
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
    // A restart must not wait for old connections; on Windows the same option would let two programs share a port.
    if cfg!(unix) {
        socket.set_reuse_address(true)?;
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
    fn addresses_are_read_as_other_exporters_read_them() {
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
    fn what_is_no_address_is_refused_with_the_mend() {
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
    fn only_loopback_is_loopback() {
        let is = |text: &str| text.parse::<ListenAddress>().unwrap().is_loopback();
        assert!(is("127.0.0.1:1") && is("[::1]:1") && is("localhost:1") && is("127.1.2.3:1"));
        assert!(!is(":1") && !is("0.0.0.0:1") && !is("[::]:1") && !is("example.com:1"));
    }

    #[test]
    fn every_address_is_both_families_where_there_are_both() {
        let listener = ":0".parse::<ListenAddress>().unwrap().bind().unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    }
}
