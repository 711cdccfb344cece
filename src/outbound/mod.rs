//! What every outbound connection and every persistent file needs: retry timing, error causes, base URLs, HTTP client
//! setup, name resolution, atomic file replacement and JSON of a bounded size.
//!
//! `retry`, `url` and `json` are pure.

pub(crate) mod error;
pub mod file;
pub(crate) mod http;
pub(crate) mod json;
pub(crate) mod resolver;
pub(crate) mod retry;
pub(crate) mod url;
