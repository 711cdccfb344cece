//! Fakes and clients for several tests. All of them use loopback sockets.

pub(crate) mod alertmanager;
pub(crate) mod collector;
pub(crate) mod driven_engine;
pub(crate) mod events;
pub(crate) mod exporter;
pub(crate) mod golden;
pub(crate) mod grpc;
pub(crate) mod imds;
mod listening;
pub(crate) mod log;
pub(crate) mod pki;
pub(crate) mod process;
mod reply;
mod request;
pub(crate) mod served;
pub(crate) mod simulated_vm;

pub(crate) use alertmanager::FakeAlertmanager;
pub(crate) use imds::FakeImds;
pub(crate) use pki::Pki;
pub(crate) use reply::Reply;

#[cfg(unix)]
use std::net::TcpStream;
use std::{fmt, net::SocketAddr, time::Duration};

use azure_scheduled_events_exporter::{
    api_version::ApiVersion,
    imds::{Client, Endpoint},
    time::Clock,
};

/// Bounds the wait for anything, on a busy machine too.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// The api-version of all tests but those of other versions.
pub(crate) const API_VERSION: &str = "2020-07-01";

/// The IMDS at `base`, which is asked for `version`.
pub(crate) fn endpoint(base: &str, version: &str) -> Endpoint {
    Endpoint::new(base, &ApiVersion::parse(version).unwrap()).unwrap()
}

/// The exporter's IMDS client for an address.
pub(crate) fn client_of(base: &str) -> Client {
    install_cryptography();
    Client::new(&endpoint(base, API_VERSION), Clock::start()).unwrap()
}

/// Installs the crypto provider, as `main` does; without effect when called again.
pub(crate) fn install_cryptography() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}

/// Repeats `ask` until it returns a value; fails with `what` after `deadline`.
pub(crate) async fn wait_until<T>(
    deadline: Duration,
    what: &str,
    mut ask: impl FnMut() -> Option<T>,
) -> T {
    let end = tokio::time::Instant::now() + deadline;
    loop {
        if let Some(value) = ask() {
            return value;
        }
        let has_timed_out = tokio::time::Instant::now() > end;
        assert!(!has_timed_out, "not within {deadline:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Repeats a request until its answer is as expected; fails with `what` and the last answer.
pub(crate) async fn ask_until<T: fmt::Debug>(
    what: &str,
    ask: impl AsyncFn() -> T,
    is_met: impl Fn(&T) -> bool,
) -> T {
    let end = tokio::time::Instant::now() + DEADLINE;
    loop {
        let answer = ask().await;
        if is_met(&answer) {
            return answer;
        }
        let has_timed_out = tokio::time::Instant::now() > end;
        assert!(
            !has_timed_out,
            "not within {DEADLINE:?}: {what}\n{answer:#?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A connection from 127.0.0.`last`, on Linux: other systems do not have all of 127.0.0.0/8 on their loopback interface.
#[cfg(unix)]
pub(crate) fn connect_from(last: u8, server: SocketAddr) -> TcpStream {
    let kind = socket2::Type::STREAM;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
    let address = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(&address.into()).unwrap();
    // A server that closes the connection at once may be faster than this call.
    if let Err(error) = socket.connect(&server.into()) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    socket.into()
}

/// A loopback port that refuses connections, reserved until it is dropped: bound by a socket that does not listen. Then
/// it can be listened on: no other program gets a port of this address from the kernel.
pub(crate) struct RefusingPort(socket2::Socket);

impl RefusingPort {
    pub(crate) fn reserve() -> Self {
        let kind = socket2::Type::STREAM;
        let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
        let any_port: SocketAddr = ([127, 0, 0, 2], 0).into();
        socket.bind(&any_port.into()).unwrap();
        Self(socket)
    }

    pub(crate) fn base(&self) -> String {
        let address = self.0.local_addr().unwrap().as_socket().unwrap();
        format!("http://{address}")
    }
}
