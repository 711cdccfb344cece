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

use crate::base::{text::strip_brackets, worker::Worker};

#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    worker: Option<Worker>,
    /// The address of every name.
    fixed: Option<IpAddr>,
}

impl Resolver {
    pub(crate) fn new(worker: Worker) -> Self {
        Self {
            worker: Some(worker),
            fixed: None,
        }
    }

    /// For a client of one of the addresses of a name.
    pub(crate) fn fixed(address: IpAddr) -> Self {
        Self {
            worker: None,
            fixed: Some(address),
        }
    }

    /// A resolver for a client that connects to one host, in the form of a URI. An address needs no thread.
    pub(crate) fn for_host(host: &str) -> io::Result<Self> {
        let is_address = strip_brackets(host).parse::<IpAddr>().is_ok();
        let worker = (!is_address).then(|| Worker::start("resolver"));
        Ok(Self {
            worker: worker.transpose()?,
            fixed: None,
        })
    }

    pub(crate) async fn lookup(self, host: String) -> io::Result<vec::IntoIter<SocketAddr>> {
        if let Some(address) = self.fixed {
            return Ok(vec![(address, 0).into()].into_iter());
        }
        let worker = self
            .worker
            .ok_or_else(|| io::Error::other("no lookup of host names"))?;
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
