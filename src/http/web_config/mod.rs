//! The file of `--web.config.file`: TLS, names and passwords, and headers for the port of the exporter, in the format of
//! exporter-toolkit.
//!
//! `settings` makes typed settings of a text, and `tls` a configuration of rustls. `files` reads both from disk, for each
//! request and each handshake. `access` is a [`Handler`] in front of the web service, and `handshake` an `Acceptor` of
//! the server. Where the files are not valid while the exporter runs, nothing but probes is served.

mod access;
mod files;
mod handshake;
mod passwords;
mod settings;
#[cfg(test)]
mod tests;
mod tls;
mod tls_settings;

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, Mutex},
};

use self::{
    access::Access,
    files::{ConfigFiles, ConfigSource},
    handshake::Handshakes,
    passwords::Passwords,
    settings::Settings,
};
use crate::{
    base::worker::Worker,
    http::server::{Acceptor, Handler},
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

/// What serves by the file. Without an acceptor, the port speaks plain HTTP.
type Protected = (Arc<dyn Handler>, Option<Arc<dyn Acceptor>>);

impl WebConfig {
    /// Reads the file, and the certificates and keys that it names.
    ///
    /// # Errors
    /// The first setting or file that is not valid, in one line with the path.
    pub fn open(path: &Path) -> Result<Self, String> {
        let (files, settings) = ConfigFiles::open(path)?;
        Ok(Self {
            files: Arc::new(Mutex::new(files)),
            settings,
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

    /// Whether requests need a password.
    pub(crate) fn has_users(&self) -> bool {
        !self.settings.users.is_empty()
    }

    /// Settings without the effect that they have elsewhere; a line for each.
    pub(crate) fn notes(&self) -> &[&'static str] {
        &self.settings.notes
    }

    /// Starts the threads that read the files and check passwords, and puts the checks in front of `handler`.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn protect(
        &self,
        handler: Arc<dyn Handler>,
        open_paths: &'static [&'static str],
    ) -> io::Result<Protected> {
        let source = Arc::new(ConfigSource::new(
            Arc::clone(&self.files),
            Arc::clone(&self.settings),
            Worker::start("web config")?,
        ));
        let passwords = Passwords::new(Worker::start("passwords")?)
            .map_err(|_| io::Error::other("the system has no random numbers"))?;
        let acceptor = self.is_tls().then(|| -> Arc<dyn Acceptor> {
            Arc::new(Handshakes {
                source: Arc::clone(&source),
            })
        });
        let access = Access {
            source,
            passwords,
            open_paths,
            handler,
        };
        Ok((Arc::new(access), acceptor))
    }
}
