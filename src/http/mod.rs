//! HTTP: the server, listening sockets, the web configuration, and what our HTTP clients have in common.

pub mod listen;
pub(crate) mod outbound;
pub mod server;
pub mod web_config;
