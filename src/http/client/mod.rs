//! What the HTTP clients have in common: setup, credentials, retry timing, error causes, URLs and name resolution.
//!
//! `retry` and `url` are pure.

pub(crate) mod credentials;
pub(crate) mod error;
pub(crate) mod http;
pub(crate) mod resolver;
pub(crate) mod retry;
pub(crate) mod url;
