//! Listen addresses in the format of the Prometheus exporters, and their sockets.

use std::{
    collections::BTreeSet,
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs},
    str::FromStr,
};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that wait for an accept; the system may allow fewer (Linux: `net.core.somaxconn`). A client whose
/// connection finds no room here tries again only after a second.
const BACKLOG: i32 = 4096;

/// Bytes per connection; Linux doubles the value for its own overhead.
const SEND_BUFFER: usize = 128 * 1024;

/// `host:port`, as Go's `net.Listen` takes it. An empty host stands for all IPv4 and IPv6 addresses of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
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
                if !inner.is_empty() && without_zone(inner).is_none() {
                    return Err(error("has no IP address in its brackets"));
                }
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
    /// True for `localhost` and loopback IP addresses.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host.as_deref();
        let is_loopback_ip = |host| without_zone(host).is_some_and(|ip| ip.is_loopback());
        host.is_some_and(|host| is_localhost(host) || is_loopback_ip(host))
    }

    /// Listens on every address of the name that this machine has; with port 0 on the same port of each.
    pub(crate) fn bind(&self) -> io::Result<Vec<TcpListener>> {
        let Some(host) = &self.host else {
            // One socket for both families, or an IPv4 socket if IPv6 is disabled.
            let all = |ip: IpAddr| open(SocketAddr::new(ip, self.port));
            let listener = all(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| {
                if is_final(&error) {
                    return Err(error);
                }
                all(Ipv4Addr::UNSPECIFIED.into())
            });
            return listener.map(|listener| vec![listener]);
        };
        let mut listeners: Vec<TcpListener> = Vec::new();
        let mut port = self.port;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        // A name may have the same address twice.
        let addresses: BTreeSet<SocketAddr> = if is_localhost(host) {
            // Both, also where the list of hosts has only one of them (RFC 6761, section 6.3).
            let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            both.map(|ip| SocketAddr::new(ip, port)).into()
        } else {
            (host.as_str(), port).to_socket_addrs()?.collect()
        };
        for mut address in addresses {
            address.set_port(port);
            match open(address) {
                Ok(listener) => {
                    port = listener.local_addr()?.port();
                    listeners.push(listener);
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => last = error,
            }
        }
        if listeners.is_empty() {
            return Err(last);
        }
        Ok(listeners)
    }
}

fn is_localhost(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
}

/// The IP address in a host; one of IPv6 may have a zone, as in `fe80::1%eth0`.
fn without_zone(host: &str) -> Option<IpAddr> {
    match host.split_once('%') {
        None => host.parse().ok(),
        Some((address, zone)) => {
            let is_zone = !zone.is_empty() && zone.chars().all(|c| c.is_ascii_graphic());
            let address = address.parse::<Ipv6Addr>().ok();
            address.filter(|_| is_zone).map(IpAddr::V6)
        }
    }
}

/// Other errors mean that the machine does not have the address.
fn is_final(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied
    )
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
            "[fe80::1%eth0]:9100",
            "[fe80::1%2]:9100",
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for (text, shown) in [
            ("[127.0.0.1]:10169", "127.0.0.1:10169"),
            ("[]:9100", ":9100"),
        ] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), shown);
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
            "[fe80::1%]:1",
            "[fe80::1%a b]:1",
            "[127.0.0.1%eth0]:1",
            "fe80::1%eth0:1",
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
        assert!(is("[127.0.0.1]:1") && is("[::1%lo]:1") && !is("[fe80::1%lo]:1"));
        assert!(is("127.0.0.1:1") && is("[::1]:1") && is("localhost:1") && is("127.1.2.3:1"));
        assert!(!is(":1") && !is("0.0.0.0:1") && !is("[::]:1") && !is("example.com:1"));
    }

    #[test]
    fn empty_host_listens_on_both_address_families() {
        let listeners = ":0".parse::<ListenAddress>().unwrap().bind().unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    #[test]
    fn localhost_listens_on_each_of_its_addresses_on_one_port() {
        let listeners = "localhost:0".parse::<ListenAddress>().unwrap().bind();
        let listeners = listeners.unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        for address in ["127.0.0.1", "::1"] {
            let has_address = TcpListener::bind((address, 0)).is_ok();
            let is_served = std::net::TcpStream::connect((address, port)).is_ok();
            assert_eq!(is_served, has_address, "{address}");
        }
    }
}
