//! One task per Alertmanager: started before the first poll, and let finish at the end.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet, time::timeout};

use crate::{
    alertmanager::{PushCounts, Pusher, SetupError, Target},
    snapshot::Snapshot,
    time::Clock,
};

/// What was not told yet when the program ends gets so much time.
const FAREWELL: Duration = Duration::from_secs(5);

/// The pushers that run.
#[derive(Debug)]
pub(super) struct Pushing {
    tasks: JoinSet<()>,
}

impl Pushing {
    /// Starts them; what they do comes back through the receiver.
    pub(super) fn start(
        targets: &[Target],
        clock: Clock,
        snapshots: &watch::Receiver<Arc<Snapshot>>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<(Self, watch::Receiver<PushCounts>), SetupError> {
        let (counts, counted) = watch::channel(PushCounts::default());
        let mut tasks = JoinSet::new();
        for target in targets {
            let pusher = Pusher::new(target.clone(), clock, counts.clone())?;
            tasks.spawn(pusher.run(snapshots.clone(), stopped.clone()));
        }
        Ok((Self { tasks }, counted))
    }

    /// Waits for the last pushes, after the last picture was published and all were told to stop.
    pub(super) async fn finish(mut self) {
        let finished = async { while self.tasks.join_next().await.is_some() {} };
        let _out_of_patience = timeout(FAREWELL, finished).await.is_err();
    }
}
