//! What the tests share: parts that speak over real sockets, on loopback, and nothing else.

pub(crate) mod alertmanager;
pub(crate) mod collector;
pub(crate) mod exporter;
pub(crate) mod golden;
pub(crate) mod imds;
pub(crate) mod pki;
pub(crate) mod process;
mod reply;
mod request;

pub(crate) use alertmanager::FakeAlertmanager;
pub(crate) use imds::FakeImds;
pub(crate) use pki::Pki;
pub(crate) use reply::Reply;

use std::time::Duration;

use azure_scheduled_events_exporter::imds::{Client, Endpoint};

/// Time enough for anything that is to come, on a busy machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The api-version that the tests ask for unless the version is what they are about.
pub(crate) const API_VERSION: &str = "2020-07-01";

/// A client of an address, as the exporter makes it.
pub(crate) fn client_of(base: &str) -> Client {
    install_cryptography();
    Client::new(&Endpoint::new(base, API_VERSION).unwrap()).unwrap()
}

/// What `main` does first; a second time does nothing.
pub(crate) fn install_cryptography() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
}
