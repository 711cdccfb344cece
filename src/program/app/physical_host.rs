//! Reads the name of the physical host on a thread of its own: a disk that hangs does not stop the loop.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{
    azure::document::Answer,
    base::{kvp, worker::Worker},
    core::engine::Input,
    program::CommandError,
};

const READ_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct PhysicalHostReader {
    pool_file: Option<PathBuf>,
    worker: Worker,
}

/// With instance metadata, the first of which are requested at the start, and with each document that is another one
/// than the last, with which events start and nearly all end.
pub(super) fn is_due(input: &Input) -> bool {
    matches!(
        input,
        Input::Identified { .. }
            | Input::Polled {
                result: Ok(Answer::Document { .. }),
                ..
            }
    )
}

impl PhysicalHostReader {
    pub(super) fn start(pool_file: Option<PathBuf>) -> Result<Self, CommandError> {
        let worker = Worker::start("host");
        let worker = worker.map_err(CommandError::thread("reads the name of the physical host"))?;
        Ok(Self { pool_file, worker })
    }

    pub(super) async fn read(&self) -> Option<Arc<str>> {
        let pool_file = self.pool_file.clone();
        let read = move || kvp::physical_host(pool_file.as_deref());
        let read = self.worker.run_while_awaited(read);
        timeout(READ_TIMEOUT, read).await.ok()??.map(Arc::from)
    }
}
