//! Credentials in files.

use std::path::{Path, PathBuf};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::header::HeaderValue;

use crate::base::file::{MAX_SECRET_BYTES, read_given};

/// A file with credentials. It is read for each request, so that a secret can be rotated without a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// `user:password`.
    Basic(PathBuf),
    Bearer(PathBuf),
}

impl Credentials {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Basic(path) | Self::Bearer(path) => path,
        }
    }

    /// The header `Authorization`. An error continues a sentence that begins with the path, and does not contain the
    /// content of the file.
    pub(crate) fn header(&self) -> Result<HeaderValue, String> {
        let content = read_given(self.path(), MAX_SECRET_BYTES)?;
        let text = String::from_utf8(content);
        let text = text.map_err(|_| "is not UTF-8 text: save it as UTF-8")?;
        let text = text.trim();
        let header = match self {
            Self::Basic(_) if !text.contains(':') => {
                return Err("does not hold USER:PASSWORD in one line".to_owned());
            }
            Self::Basic(_) => format!("Basic {}", BASE64_STANDARD.encode(text)),
            Self::Bearer(_) if text.is_empty() => {
                return Err("is empty: write the token into it".to_owned());
            }
            Self::Bearer(_) => format!("Bearer {text}"),
        };
        let mut header =
            HeaderValue::try_from(header).map_err(|_| "holds more than a token".to_owned())?;
        header.set_sensitive(true);
        Ok(header)
    }
}
