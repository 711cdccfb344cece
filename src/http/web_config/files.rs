//! The settings for one request or handshake, read for it from the file and the files that it names. What has not changed
//! is not parsed again.
//!
//! The files are read on a thread of their own: a disk that hangs delays no poll.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustls::ServerConfig;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use super::{settings::Settings, tls::server_config, tls_settings::TlsContent};
use crate::base::{
    file::{MAX_CERTIFICATES_BYTES, read_given},
    log_id,
    text::sanitize,
    worker::Worker,
};

/// After files have become invalid, for this time each use waits whether they become valid again: the files of a
/// certificate and its key are replaced one after the other, and a file may be read while it is written.
const GRACE: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// The files, with what was read of them last.
pub(super) struct ConfigFiles {
    path: PathBuf,
    /// With their text.
    settings: Option<(Vec<u8>, Arc<Settings>)>,
    tls: Option<TlsConfig>,
    /// The first settings had TLS.
    is_tls: bool,
    /// Any settings had users.
    had_users: bool,
}

struct TlsConfig {
    settings: Arc<Settings>,
    content: TlsContent,
    config: Arc<ServerConfig>,
}

impl ConfigFiles {
    /// Reads all of them for the first time. The error names the file.
    pub(super) fn open(path: &Path) -> Result<(Self, Arc<Settings>), String> {
        let mut files = Self {
            path: path.to_owned(),
            settings: None,
            tls: None,
            is_tls: false,
            had_users: false,
        };
        let settings = files.settings().and_then(|settings| {
            files.is_tls = settings.tls.is_some();
            if files.is_tls {
                files.tls()?;
            }
            Ok(settings)
        });
        let settings = settings.map_err(|problem| files.error(&problem))?;
        Ok((files, settings))
    }

    fn settings(&mut self) -> Result<Arc<Settings>, String> {
        let text = read_given(&self.path, MAX_CERTIFICATES_BYTES)?;
        if let Some((known, settings)) = &self.settings
            && *known == text
        {
            return Ok(Arc::clone(settings));
        }
        let utf8 = str::from_utf8(&text).map_err(|_| "is not UTF-8 text")?;
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let settings = Settings::parse(utf8, directory)?;
        // Requests would no longer be encrypted, or no longer need a password. A file that is being written also looks
        // like this.
        if self.is_tls && settings.tls.is_none() {
            return Err(removed("tls_server_config"));
        }
        if self.had_users && settings.users.is_empty() {
            return Err(removed("basic_auth_users"));
        }
        self.had_users |= !settings.users.is_empty();
        if self.settings.is_some() {
            self.log_change(&settings);
        }
        let settings = Arc::new(settings);
        self.settings = Some((text, Arc::clone(&settings)));
        Ok(settings)
    }

    /// The configuration for the next handshake.
    fn tls(&mut self) -> Result<Arc<ServerConfig>, String> {
        let settings = self.settings()?;
        let tls = settings.tls.as_ref();
        let tls = tls.ok_or_else(|| removed("tls_server_config"))?;
        let content = tls.read()?;
        if let Some(known) = &self.tls
            && Arc::ptr_eq(&known.settings, &settings)
            && known.content == content
        {
            return Ok(Arc::clone(&known.config));
        }
        let config = Arc::new(server_config(tls, &content)?);
        if self.tls.is_some() {
            info!(file = self.file(), "TLS certificates and settings changed");
        }
        self.tls = Some(TlsConfig {
            settings: Arc::clone(&settings),
            content,
            config: Arc::clone(&config),
        });
        Ok(config)
    }

    /// The path of the file, in quotes.
    fn file(&self) -> String {
        format!("{:?}", sanitize(&self.path.display().to_string()))
    }

    fn error(&self, problem: &str) -> String {
        format!("{}: {problem}", self.file())
    }

    fn log_change(&self, settings: &Settings) {
        info!(file = self.file(), "web configuration changed");
        for note in &settings.notes {
            warn!("{note}");
        }
        if !self.is_tls && settings.tls.is_some() {
            warn!("tls_server_config was added and has no effect before a restart");
        }
    }
}

fn removed(section: &str) -> String {
    format!("{section} was removed: restart the exporter if this is intended")
}

/// What it returns is `None` if the files cannot be used. The log says why.
pub(super) struct ConfigSource {
    files: Arc<Mutex<ConfigFiles>>,
    worker: Worker,
    status: Mutex<FilesStatus>,
}

struct FilesStatus {
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
        files: Arc<Mutex<ConfigFiles>>,
        settings: Arc<Settings>,
        worker: Worker,
    ) -> Self {
        let status = FilesStatus {
            last_valid: settings,
            failure: None,
        };
        Self {
            files,
            worker,
            status: Mutex::new(status),
        }
    }

    /// As they were when they were last valid.
    pub(super) fn last_valid(&self) -> Arc<Settings> {
        Arc::clone(&lock(&self.status).last_valid)
    }

    pub(super) async fn settings(&self) -> Option<Arc<Settings>> {
        let settings = self.load(false, ConfigFiles::settings).await?;
        lock(&self.status).last_valid = Arc::clone(&settings);
        Some(settings)
    }

    pub(super) async fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.load(true, ConfigFiles::tls).await
    }

    async fn load<T: Send + 'static>(
        &self,
        is_tls: bool,
        load: fn(&mut ConfigFiles) -> Result<T, String>,
    ) -> Option<T> {
        loop {
            let files = Arc::clone(&self.files);
            let loaded = self.worker.run_while_awaited(move || {
                let mut files = lock(&files);
                load(&mut files).map_err(|problem| files.error(&problem))
            });
            // Only a disk that hangs lets the jobs of so many requests wait.
            let hangs = || Err("reading the files takes too long".to_owned());
            match loaded.await.unwrap_or_else(hangs) {
                Ok(loaded) => {
                    self.succeeded(is_tls);
                    return Some(loaded);
                }
                Err(problem) if !self.may_retry(is_tls, &problem) => return None,
                Err(_) => sleep(RETRY_INTERVAL).await,
            }
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
    fn may_retry(&self, is_tls: bool, problem: &str) -> bool {
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
        if failure.logged.as_deref() != Some(problem) {
            error!(
                name: log_id::WEB_CONFIG_INVALID,
                error = problem,
                "web configuration is not valid: new connections and requests are refused"
            );
            failure.logged = Some(problem.to_owned());
        }
        false
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
