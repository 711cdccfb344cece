//! The settings for one request or handshake, read for it from the file and the files that it names. What has not changed
//! is not parsed again.
//!
//! The files are read on a thread of their own: a disk that hangs delays no poll.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustls::ServerConfig;
use tracing::{error, info, warn};

use super::{settings::Settings, tls::server_config, tls_settings::TlsContent};
use crate::base::{
    file::{MAX_CERTIFICATES_BYTES, read_given},
    log_id,
    text::sanitize,
    worker::Worker,
};

/// The files, with what was read of them last.
pub(super) struct ConfigFiles {
    path: PathBuf,
    /// With their text.
    settings: Option<(Vec<u8>, Arc<Settings>)>,
    /// `None` if the first settings had no TLS.
    tls: Option<TlsConfig>,
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
        };
        let settings = files.settings().and_then(|settings| {
            if settings.tls.is_some() {
                files.tls()?;
            }
            Ok(settings)
        });
        let settings = settings.map_err(|problem| files.error(&problem))?;
        Ok((files, settings))
    }

    fn settings(&mut self) -> Result<Arc<Settings>, String> {
        let text = read_given(&self.path, MAX_CERTIFICATES_BYTES)?;
        let last = self.settings.as_ref();
        if let Some((known, settings)) = last
            && *known == text
        {
            return Ok(Arc::clone(settings));
        }
        let utf8 = str::from_utf8(&text).map_err(|_| "is not UTF-8 text")?;
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let settings = Settings::parse(utf8, directory)?;
        // Requests would no longer be encrypted, or no longer need a password. A file that is being written also looks
        // like this.
        if self.tls.is_some() && settings.tls.is_none() {
            return Err(removed("tls_server_config"));
        }
        let had_users = last.is_some_and(|(_, last)| !last.users.is_empty());
        if had_users && settings.users.is_empty() {
            return Err(removed("basic_auth_users"));
        }
        if last.is_some() {
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
        if self.tls.is_none() && settings.tls.is_some() {
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
    /// What the log said since the last success.
    failure: Option<Failure>,
}

struct Failure {
    problem: String,
    /// The certificates failed, and not only the settings.
    is_tls: bool,
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
                Some(loaded)
            }
            Err(problem) => {
                self.failed(is_tls, problem);
                None
            }
        }
    }

    /// The settings do not tell whether the certificates are valid again.
    fn succeeded(&self, is_tls: bool) {
        let mut status = lock(&self.status);
        let ended = |failure: &mut Failure| is_tls || !failure.is_tls;
        if status.failure.take_if(ended).is_some() {
            info!(name: log_id::WEB_CONFIG_VALID, "web configuration is valid again");
        }
    }

    /// Logs each failure once.
    fn failed(&self, is_tls: bool, problem: String) {
        let mut status = lock(&self.status);
        let last = status.failure.take();
        if last.as_ref().is_none_or(|last| last.problem != problem) {
            error!(
                name: log_id::WEB_CONFIG_INVALID,
                error = problem,
                "web configuration is not valid: new connections and requests are refused"
            );
        }
        let is_tls = is_tls || last.is_some_and(|last| last.is_tls);
        status.failure = Some(Failure { problem, is_tls });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
