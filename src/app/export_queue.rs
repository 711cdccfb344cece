//! The spool of one signal of OpenTelemetry, and its sender.

use std::{future::Future, path::Path};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    otlp::{
        sender::{self, Connection},
        signal::Signal,
        spool::{Spool, SpoolHandle, SpoolLimits},
    },
    outbound::file::OsFilesystem,
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

    /// Exports the batches until `stop` is cancelled.
    pub(super) fn send(
        &self,
        connection: Connection,
        stop: CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        sender::run(connection, self.spool.clone(), stop)
    }
}
