//! HTTP: the server, listening sockets, the web configuration, and what our HTTP clients have in common.

pub(crate) mod client;
pub mod listen;
pub mod server;
pub mod web_config;
