//! What every outbound connection and every persistent file needs: retry timing, error causes, base URLs, HTTP client
//! setup, name resolution and atomic file replacement.
//!
//! `retry` and `url` are pure.

pub(crate) mod error;
pub mod file;
pub(crate) mod http;
pub(crate) mod resolver;
pub(crate) mod retry;
pub(crate) mod url;
