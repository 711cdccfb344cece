//! Reads the file and the files that it names. What has not changed is not parsed again.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::ServerConfig;
use tracing::{info, warn};

use super::{
    settings::Settings,
    tls::{TlsContent, server_config},
    tls_settings::{Pem, TlsSettings},
};
use crate::base::{
    file::{MAX_CERTIFICATES_BYTES, read_given},
    text::sanitize,
};

pub(super) struct ConfigReader {
    path: PathBuf,
    /// What was read last, and its text.
    settings: Option<(Vec<u8>, Arc<Settings>)>,
    /// What was read last of the files that the settings name.
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

impl ConfigReader {
    /// Nothing is read yet.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            settings: None,
            tls: None,
            is_tls: false,
            had_users: false,
        }
    }

    /// Reads all of it for the first time.
    pub(super) fn open(&mut self) -> Result<Arc<Settings>, String> {
        let settings = self.settings()?;
        if settings.tls.is_some() {
            self.is_tls = true;
            self.tls()?;
        }
        Ok(settings)
    }

    pub(super) fn settings(&mut self) -> Result<Arc<Settings>, String> {
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
        let settings = Arc::new(settings);
        if self.settings.is_some() {
            self.log_change(&settings);
        }
        self.settings = Some((text, Arc::clone(&settings)));
        Ok(settings)
    }

    /// The configuration for the next handshake.
    pub(super) fn tls(&mut self) -> Result<Arc<ServerConfig>, String> {
        let settings = self.settings()?;
        let tls = settings.tls.as_ref();
        let tls = tls.ok_or_else(|| removed("tls_server_config"))?;
        let content = content(tls)?;
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
    pub(super) fn file(&self) -> String {
        format!("{:?}", sanitize(&self.path.display().to_string()))
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

fn content(settings: &TlsSettings) -> Result<TlsContent, String> {
    let bytes = |pem: &Pem| match &pem.file {
        None => Ok(pem.text.clone().into_bytes()),
        Some(path) => {
            read_given(path, MAX_CERTIFICATES_BYTES).map_err(|problem| pem.error(&problem))
        }
    };
    let client_ca = settings.client_ca.as_ref().map(bytes);
    Ok([
        bytes(&settings.certificate)?,
        bytes(&settings.key)?,
        client_ca.transpose()?.unwrap_or_default(),
    ])
}
