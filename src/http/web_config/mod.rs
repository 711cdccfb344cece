//! The file of `--web.config.file`: TLS, names and passwords, and headers for the port of the exporter, in the format of
//! exporter-toolkit.
//!
//! `web_settings` makes typed settings of a text, and `server_tls` a configuration of rustls. `ConfigSource` reads both from
//! disk, for each request and each handshake; what has not changed is not parsed again. `access` is a [`Handler`] in front
//! of the web service. Where the files are not valid while the exporter runs, nothing but probes is served.

mod access;
mod passwords;
mod server_tls;
#[cfg(test)]
mod tests;
mod web_settings;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use rustls::ServerConfig;
use tracing::{error, info, warn};

use self::{
    access::Access,
    passwords::Passwords,
    server_tls::server_config,
    web_settings::{Settings, TlsContent},
};
use crate::{
    base::{
        file::{MAX_CERTIFICATES_BYTES, read_given},
        log_id,
        text::sanitize,
        worker::Worker,
    },
    http::server::Handler,
};

/// The file, read and checked.
#[derive(Clone)]
pub struct WebConfig {
    files: Arc<Mutex<ConfigFiles>>,
    /// When it was opened.
    settings: Arc<Settings>,
}

/// Without passwords and keys.
impl fmt::Debug for WebConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebConfig").finish_non_exhaustive()
    }
}

impl WebConfig {
    /// Reads the file, and the certificates and keys that it names.
    ///
    /// # Errors
    /// The first setting or file that is not valid, in one line with the path.
    pub fn open(path: &Path) -> Result<Self, String> {
        let mut files = ConfigFiles {
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
        Ok(Self {
            settings: settings.map_err(|problem| files.error(&problem))?,
            files: Arc::new(Mutex::new(files)),
        })
    }

    /// Checks the text of a file, and no file that it names.
    ///
    /// # Errors
    /// The first setting that is not valid, in one line.
    pub fn check(text: &str) -> Result<(), String> {
        Settings::parse(text, Path::new("")).map(drop)
    }

    /// Whether the port has TLS, until the end of the process.
    pub(crate) fn is_tls(&self) -> bool {
        self.settings.tls.is_some()
    }

    pub(crate) fn has_users(&self) -> bool {
        !self.settings.users.is_empty()
    }

    /// Settings without the effect that they have elsewhere; a line for each.
    pub(crate) fn notes(&self) -> &[&'static str] {
        &self.settings.notes
    }

    /// Starts the threads that read the files and check passwords, and puts the checks in front of `handler`.
    pub(crate) fn protect(
        &self,
        handler: Arc<dyn Handler>,
        open_paths: &'static [&'static str],
    ) -> io::Result<Arc<dyn Handler>> {
        let source = ConfigSource {
            files: Arc::clone(&self.files),
            worker: Worker::start("web config")?,
            status: Mutex::new(FilesStatus {
                last_valid: Arc::clone(&self.settings),
                failure: None,
            }),
        };
        let passwords = Passwords::new(Worker::start("passwords")?)
            .map_err(|_| io::Error::other("the system has no random numbers"))?;
        Ok(Arc::new(Access {
            source,
            is_tls: self.is_tls(),
            passwords,
            open_paths,
            handler,
        }))
    }
}

struct ConfigFiles {
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
struct ConfigSource {
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
    /// As they were when they were last valid.
    fn last_valid(&self) -> Arc<Settings> {
        Arc::clone(&self.status.lock().last_valid)
    }

    async fn settings(&self) -> Option<Arc<Settings>> {
        let settings = self.load(false, ConfigFiles::settings).await?;
        self.status.lock().last_valid = Arc::clone(&settings);
        Some(settings)
    }

    async fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.load(true, ConfigFiles::tls).await
    }

    async fn load<T: Send + 'static>(
        &self,
        is_tls: bool,
        load: fn(&mut ConfigFiles) -> Result<T, String>,
    ) -> Option<T> {
        let files = Arc::clone(&self.files);
        let loaded = self.worker.run_while_awaited(move || {
            let mut files = files.lock();
            load(&mut files).map_err(|problem| files.error(&problem))
        });
        // Only a disk that hangs lets the jobs of so many requests wait.
        let hangs = || Err("reading the files takes too long".to_owned());
        let loaded = loaded.await.unwrap_or_else(hangs);
        let mut status = self.status.lock();
        match loaded {
            Ok(loaded) => {
                // The settings do not tell whether the certificates are valid again.
                let ended = |failure: &mut Failure| is_tls || !failure.is_tls;
                if status.failure.take_if(ended).is_some() {
                    info!(name: log_id::WEB_CONFIG_VALID, "web configuration is valid again");
                }
                Some(loaded)
            }
            Err(problem) => {
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
                None
            }
        }
    }
}
