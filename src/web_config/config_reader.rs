//! Reads the file and the files that it names. What has not changed is not parsed again.

use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::ServerConfig;
use tracing::{info, warn};

use super::{
    fields::SettingError,
    settings::Settings,
    tls::{TlsContent, server_config},
    tls_error::TlsError,
    tls_settings::{Pem, PemSource, TlsSettings},
};
use crate::text::sanitize;

const MAX_BYTES: u64 = 1024 * 1024;

/// Why the file cannot be used; one line that names the file, and the setting if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebConfigError {
    #[error("{file}: {problem}")]
    Unreadable { file: String, problem: String },
    #[error("{file}: {error}")]
    Setting { file: String, error: SettingError },
    #[error("{file}: {error}")]
    Tls { file: String, error: TlsError },
    /// Requests would no longer be encrypted, or no longer need a password. A file that is being written also looks
    /// like this.
    #[error("{file}: {section} was removed: restart the exporter if this is intended")]
    Removed { file: String, section: &'static str },
}

pub(super) struct ConfigReader {
    path: PathBuf,
    /// What was read last, and its text.
    settings: Option<(Vec<u8>, Arc<Settings>)>,
    /// The same of the files that the settings name.
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

/// Without the content of the files.
impl fmt::Debug for ConfigReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigReader")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl ConfigReader {
    /// Reads all of it for the first time.
    pub(super) fn open(path: &Path) -> Result<(Self, Arc<Settings>), WebConfigError> {
        let mut reader = Self {
            path: path.to_owned(),
            settings: None,
            tls: None,
            is_tls: false,
            had_users: false,
        };
        let settings = reader.settings()?;
        if settings.tls.is_some() {
            reader.is_tls = true;
            reader.tls()?;
        }
        Ok((reader, settings))
    }

    /// Whether the port has TLS, until the end of the process.
    pub(super) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(super) fn settings(&mut self) -> Result<Arc<Settings>, WebConfigError> {
        let text = read(&self.path).map_err(|problem| WebConfigError::Unreadable {
            file: self.file(),
            problem,
        })?;
        if let Some((known, settings)) = &self.settings
            && *known == text
        {
            return Ok(Arc::clone(settings));
        }
        let utf8 = str::from_utf8(&text).map_err(|_| WebConfigError::Unreadable {
            file: self.file(),
            problem: "is not UTF-8 text".to_owned(),
        })?;
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let settings =
            Settings::parse(utf8, directory).map_err(|error| WebConfigError::Setting {
                file: self.file(),
                error,
            })?;
        self.check_removed(&settings)?;
        self.had_users |= !settings.users.is_empty();
        let settings = Arc::new(settings);
        let is_first = self.settings.is_none();
        self.settings = Some((text, Arc::clone(&settings)));
        if !is_first {
            self.log_change(&settings);
        }
        Ok(settings)
    }

    /// The configuration for the next handshake.
    pub(super) fn tls(&mut self) -> Result<Arc<ServerConfig>, WebConfigError> {
        let settings = self.settings()?;
        let file = self.file();
        let Some(tls) = &settings.tls else {
            return Err(removed(file, "tls_server_config"));
        };
        let tls_error = |error| WebConfigError::Tls {
            file: file.clone(),
            error,
        };
        let content = content(tls).map_err(tls_error)?;
        if let Some(known) = &self.tls
            && Arc::ptr_eq(&known.settings, &settings)
            && known.content == content
        {
            return Ok(Arc::clone(&known.config));
        }
        let config = Arc::new(server_config(tls, &content).map_err(tls_error)?);
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

    fn file(&self) -> String {
        format!("{:?}", sanitize(&self.path.display().to_string()))
    }

    fn check_removed(&self, settings: &Settings) -> Result<(), WebConfigError> {
        if self.is_tls && settings.tls.is_none() {
            return Err(removed(self.file(), "tls_server_config"));
        }
        if self.had_users && settings.users.is_empty() {
            return Err(removed(self.file(), "basic_auth_users"));
        }
        Ok(())
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

fn removed(file: String, section: &'static str) -> WebConfigError {
    WebConfigError::Removed { file, section }
}

fn content(settings: &TlsSettings) -> Result<TlsContent, TlsError> {
    let bytes = |pem: &Pem| match &pem.source {
        PemSource::Inline(text) => Ok(text.clone().into_bytes()),
        PemSource::File(path) => read(path).map_err(|problem| TlsError::new(pem, problem)),
    };
    Ok(TlsContent {
        certificate: bytes(&settings.certificate)?,
        key: bytes(&settings.key)?,
        client_ca: settings.client_ca.as_ref().map(bytes).transpose()?,
    })
}

/// The error says what is wrong with the file.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    // Reading a FIFO would wait for a writer.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut content = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut content))
        .map_err(unreadable)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(format!("is larger than {MAX_BYTES} bytes"));
    }
    Ok(content)
}
