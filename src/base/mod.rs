//! What every other folder uses: time, text, JSON, files, the worker thread, the operating system.

pub(crate) mod backoff;
pub mod file;
pub(crate) mod json;
pub(crate) mod kvp;
pub(crate) mod label;
pub(crate) mod log_id;
pub(crate) mod system;
pub(crate) mod systemd;
pub(crate) mod text;
pub mod time;
pub mod worker;
