//! The program: flags, configuration, commands, log output, wiring.

pub mod app;
pub mod cli;
pub mod command;
pub mod config;
pub mod logs;
