//! One task per Alertmanager: started before the first poll, and finished at the end.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, sync::watch, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::Error;
use crate::{
    alertmanager::{AlertPusher, Target},
    snapshot::{PushCounts, Snapshot},
    time::Clock,
    worker::Worker,
};

/// Limit for the last pushes at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct AlertPushers {
    tasks: JoinSet<()>,
}

impl AlertPushers {
    /// Returns a receiver of their counters, too.
    pub(super) fn start(
        targets: &[Target],
        clock: Clock,
        snapshots: &watch::Receiver<Arc<Snapshot>>,
        stop: &CancellationToken,
        runtime: &Handle,
    ) -> Result<(Self, watch::Receiver<PushCounts>), Error> {
        let counts = watch::Sender::new(PushCounts::default());
        let counted = counts.subscribe();
        let mut tasks = JoinSet::new();
        for target in targets {
            let worker = Worker::start("alertmanager").map_err(Error::thread("pushes alerts"))?;
            let pusher = AlertPusher::new(target.clone(), worker, clock, counts.clone())?;
            tasks.spawn_on(pusher.run(snapshots.clone(), stop.clone()), runtime);
        }
        Ok((Self { tasks }, counted))
    }

    /// Waits for the last pushes, after the last snapshot was published.
    pub(super) async fn finish(mut self) {
        let finished = async { while self.tasks.join_next().await.is_some() {} };
        // What is not pushed by then expires in Alertmanager by itself.
        timeout(SHUTDOWN_TIMEOUT, finished).await.ok();
    }
}
