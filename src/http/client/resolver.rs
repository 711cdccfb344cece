//! Resolves host names on a thread that exists from the start.
//!
//! The system's resolver blocks. The default of reqwest and hyper starts a thread for each lookup, and tokio aborts the
//! process when the system has no thread left.

use std::{
    error::Error,
    future::Future,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    pin::Pin,
    task::{Context, Poll},
    vec,
};

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use crate::base::worker::Worker;

#[derive(Debug, Clone)]
pub(crate) enum Resolver {
    /// Asks the system.
    System(Worker),
    /// The address of every name, for a client of one host.
    Fixed(IpAddr),
}

impl Resolver {
    /// A resolver for a client that connects to one host, in the form of a URI. An address needs no thread.
    pub(crate) fn for_host(host: &str) -> io::Result<Self> {
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) => Ok(Self::Fixed(address)),
            Err(_) => Worker::start("resolver").map(Self::System),
        }
    }

    pub(crate) async fn lookup(self, host: String) -> io::Result<vec::IntoIter<SocketAddr>> {
        let worker = match self {
            Self::System(worker) => worker,
            Self::Fixed(address) => return Ok(vec![(address, 0).into()].into_iter()),
        };
        let lookup = move || (host.as_str(), 0).to_socket_addrs();
        let found = worker.run_while_awaited(lookup).await;
        found.unwrap_or_else(|| Err(io::Error::other("earlier lookups of host names hang")))
    }
}

impl reqwest::dns::Resolve for Resolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let lookup = self.clone().lookup(name.as_str().to_owned());
        Box::pin(async {
            let addresses: reqwest::dns::Addrs = Box::new(lookup.await?);
            Ok::<_, Box<dyn Error + Send + Sync>>(addresses)
        })
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().lookup(name.as_str().to_owned()))
    }
}
