//! The spool of one signal of OpenTelemetry.

use std::path::Path;

use tokio::sync::watch;

use crate::{
    file::OsFilesystem,
    otlp::{
        signal::Signal,
        spool::{Spool, SpoolHandle, SpoolLimits},
    },
    snapshot::ExportCounts,
    worker::Worker,
};

#[derive(Debug)]
pub(super) struct ExportQueue {
    pub(super) spool: SpoolHandle,
    pub(super) counts: watch::Receiver<ExportCounts>,
}

impl ExportQueue {
    /// In a directory of the state directory, or in memory.
    pub(super) fn open(
        signal: Signal,
        state_directory: Option<&Path>,
        worker: Option<Worker>,
    ) -> Self {
        let directory = state_directory
            .zip(signal.spool_directory())
            .map(|(state, spool)| state.join(spool));
        let limits = SpoolLimits::default();
        let spool = Spool::open(signal, directory.as_deref(), Box::new(OsFilesystem), limits);
        let spool = SpoolHandle::new(spool, worker);
        Self {
            counts: spool.counts(),
            spool,
        }
    }
}
