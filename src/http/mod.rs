//! HTTP: the server, listening sockets, the web configuration, certificates in PEM, and what our HTTP clients have in common.

pub(crate) mod client;
pub mod listen;
mod pem;
pub mod server;
pub mod web_config;
