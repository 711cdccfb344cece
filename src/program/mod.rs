//! The program: flags, configuration, commands, log output, wiring.

pub mod app;
pub mod cli;
pub mod command;
pub mod config;
mod error;
pub mod logs;

pub use self::error::CommandError;
