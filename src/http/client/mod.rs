//! What the HTTP clients have in common: setup, TLS, proxies, credentials, retry timing,
//! error causes, URLs and name resolution.
//!
//! `retry` and `url` are pure.

pub(crate) mod credentials;
pub(crate) mod error;
pub(crate) mod http;
pub(crate) mod proxy;
pub(crate) mod resolver;
pub(crate) mod retry;
pub(crate) mod tls;
pub(crate) mod url;
