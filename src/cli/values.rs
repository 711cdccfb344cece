//! The named values of flags.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Aligned columns
    Table,
    /// Azure's JSON
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApproveFor {
    /// This VM
    #[value(name = "self")]
    Own,
    /// All VMs whose events are visible: those of the availability set or placement group
    Group,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// key=value
    Logfmt,
    /// One JSON object per line
    Json,
}
