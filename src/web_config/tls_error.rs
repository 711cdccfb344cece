//! Why TLS cannot be configured.

use super::tls_settings::{Pem, PemSource};
use crate::text::sanitize;

/// Why certificates or a key cannot be used. Names the setting, and the file if there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tls_server_config.{setting}{}: {problem}", .file.as_deref().unwrap_or_default())]
pub struct TlsError {
    setting: &'static str,
    /// With a space before it.
    file: Option<String>,
    problem: String,
}

impl TlsError {
    pub(super) fn new(pem: &Pem, problem: impl Into<String>) -> Self {
        let file = match &pem.source {
            PemSource::Inline(_) => None,
            PemSource::File(path) => {
                let path = path.display().to_string();
                Some(format!(" {:?}", sanitize(&path)))
            }
        };
        Self {
            setting: pem.setting,
            file,
            problem: problem.into(),
        }
    }
}
