//! Why a flag or a variable was refused.

use std::time::Duration;

use crate::{base::time::format_duration, outputs::otlp::settings::OtlpConfigError};

/// An invalid flag or environment variable. The message is one line with its name, its value and a valid alternative.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("--{flag}: {problem}")]
    Flag { flag: &'static str, problem: String },
    #[error(transparent)]
    Variable(#[from] OtlpConfigError),
    /// A variable that names a proxy, or the exceptions.
    #[error("{0}")]
    Proxy(String),
    #[error("{variable}: the value is not valid UTF-8; set it to text or unset it")]
    NotUtf8 { variable: String },
}

pub(super) fn flag_error(flag: &'static str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Flag {
        flag,
        problem: problem.into(),
    }
}

pub(super) fn in_range(
    flag: &'static str,
    value: Duration,
    min: Duration,
    max: Duration,
) -> Result<Duration, ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    let problem = format!(
        "{} is out of range: use a duration from {} to {}",
        format_duration(value),
        format_duration(min),
        format_duration(max)
    );
    Err(flag_error(flag, problem))
}
