//! From what happened to the spool: which spans are due, and of whom they speak.

use std::{path::Path, time::Duration};

use tokio::{sync::watch, time::timeout};

use super::logging;
use crate::{
    lifecycle::{TrackedEvent, Transition},
    otlp::{
        Counts, resource,
        settings::OtlpSettings,
        spool::{Spool, SpoolHandle, SpoolLimits},
        trace::{self, Batch, Span, VmKey},
    },
    outbound::file::OsFilesystem,
    snapshot::Identity,
    time::Timestamp,
};

/// How long a poll waits for the disk. The spool goes on with its work when nobody waits for it any more.
const PATIENCE: Duration = Duration::from_millis(500);

/// The way into the spool.
#[derive(Debug)]
pub(super) struct Traces {
    settings: OtlpSettings,
    spool: SpoolHandle,
    counts: watch::Receiver<Counts>,
}

impl Traces {
    /// Opens the spool below the state directory, or in memory.
    pub(super) fn open(settings: OtlpSettings, state_directory: Option<&Path>) -> Self {
        let directory = state_directory.map(|directory| directory.join("spool"));
        let spool = SpoolHandle::new(Spool::open(
            directory.as_deref(),
            Box::new(OsFilesystem),
            SpoolLimits::default(),
        ));
        Self {
            settings,
            counts: spool.counts(),
            spool,
        }
    }

    /// What the sender needs.
    pub(super) fn sender(&self) -> (OtlpSettings, SpoolHandle) {
        (self.settings.clone(), self.spool.clone())
    }

    /// What became of the spans so far.
    pub(super) fn counts(&self) -> Counts {
        self.counts.borrow().clone()
    }

    /// Done when that changes.
    pub(super) async fn changed(&mut self) {
        if self.counts.changed().await.is_err() {
            // The spool is gone with the process.
            std::future::pending::<()>().await;
        }
    }

    /// Spools the spans that are due because of what happened, and because of events of which it was learnt only now
    /// that they name this VM.
    pub(super) async fn append(
        &self,
        transitions: &[Transition],
        learnt: &[std::sync::Arc<TrackedEvent>],
        identity: Option<&Identity>,
        vm_name: Option<&str>,
        now: Timestamp,
    ) {
        if transitions.is_empty() && learnt.is_empty() {
            return;
        }
        let vm = VmKey::of(identity, vm_name);
        let due = learnt
            .iter()
            .flat_map(|tracked| trace::backfill(tracked, &vm));
        let spans: Vec<Span> = due
            .chain(
                transitions
                    .iter()
                    .flat_map(|transition| trace::spans(transition, &vm)),
            )
            .collect();
        let batch = Batch {
            resource: resource::of(&self.settings, identity, vm_name),
            spans,
        };
        if timeout(PATIENCE, self.spool.append(batch, now))
            .await
            .is_err()
        {
            logging::slow_spool(PATIENCE);
        }
    }
}
