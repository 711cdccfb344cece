//! The settings for one request or handshake, read from the files for it.
//!
//! The files are read on a thread of their own: a disk that hangs delays no poll.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustls::ServerConfig;
use tokio::time::{Instant, sleep};
use tracing::{error, info};

use super::{config_reader::ConfigReader, settings::Settings};
use crate::base::{log_id, worker::Worker};

/// After files have become invalid, for this time each use waits whether they become valid again: the files of a
/// certificate and its key are replaced one after the other, and a file may be read while it is written.
const GRACE: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// What it returns is `None` if the files cannot be used. The log says why.
pub(super) struct ConfigSource {
    reader: Arc<Mutex<ConfigReader>>,
    worker: Worker,
    status: Mutex<Status>,
}

struct Status {
    last_valid: Arc<Settings>,
    /// Since the first failure after a success.
    failure: Option<Failure>,
}

struct Failure {
    since: Instant,
    /// The certificates failed, and not only the settings.
    is_tls: bool,
    logged: Option<String>,
}

impl ConfigSource {
    pub(super) fn new(
        reader: Arc<Mutex<ConfigReader>>,
        settings: Arc<Settings>,
        worker: Worker,
    ) -> Self {
        Self {
            reader,
            worker,
            status: Mutex::new(Status {
                last_valid: settings,
                failure: None,
            }),
        }
    }

    /// As they were when they were last valid.
    pub(super) fn last_valid(&self) -> Arc<Settings> {
        Arc::clone(&lock(&self.status).last_valid)
    }

    pub(super) async fn settings(&self) -> Option<Arc<Settings>> {
        let settings = self.load(false, ConfigReader::settings).await?;
        lock(&self.status).last_valid = Arc::clone(&settings);
        Some(settings)
    }

    pub(super) async fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.load(true, ConfigReader::tls).await
    }

    async fn load<T: Send + 'static>(
        &self,
        is_tls: bool,
        load: fn(&mut ConfigReader) -> Result<T, String>,
    ) -> Option<T> {
        loop {
            let reader = Arc::clone(&self.reader);
            let loaded = self.worker.run_while_awaited(move || {
                let mut reader = lock(&reader);
                load(&mut reader).map_err(|problem| format!("{}: {problem}", reader.file()))
            });
            let problem = match loaded.await {
                Some(Ok(loaded)) => {
                    self.succeeded(is_tls);
                    return Some(loaded);
                }
                Some(Err(problem)) => problem,
                // Only a disk that hangs lets the jobs of so many requests wait.
                None => "reading the files takes too long".to_owned(),
            };
            if !self.may_retry(is_tls, problem) {
                return None;
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    /// The settings do not tell whether the certificates are valid again.
    fn succeeded(&self, is_tls: bool) {
        let mut status = lock(&self.status);
        let failure = status.failure.take_if(|failure| is_tls || !failure.is_tls);
        if failure.is_some_and(|failure| failure.logged.is_some()) {
            info!(name: log_id::WEB_CONFIG_VALID, "web configuration is valid again");
        }
    }

    /// Logs each failure once, when it is not tried again.
    fn may_retry(&self, is_tls: bool, problem: String) -> bool {
        let mut status = lock(&self.status);
        let failure = status.failure.get_or_insert_with(|| Failure {
            since: Instant::now(),
            is_tls,
            logged: None,
        });
        failure.is_tls |= is_tls;
        if failure.since.elapsed() < GRACE {
            return true;
        }
        if failure.logged.as_ref() != Some(&problem) {
            error!(
                name: log_id::WEB_CONFIG_INVALID,
                error = problem,
                "web configuration is not valid: new connections and requests are refused"
            );
            failure.logged = Some(problem);
        }
        false
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
