//! Log lines on stderr, in logfmt or as JSON.
//!
//! The libraries below us are heard from `warn` on only, whatever the level: what they debug is not about events.

use tracing::{level_filters::LevelFilter, subscriber::SetGlobalDefaultError};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt};

use crate::cli::{LogFlags, LogFormat, LogLevel};

/// Begins to log. Once per process.
pub fn init(flags: LogFlags) -> Result<(), SetGlobalDefaultError> {
    let level = match flags.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target(env!("CARGO_CRATE_NAME"), level);
    let layer = match flags.format {
        LogFormat::Logfmt => {
            let lines = tracing_logfmt::builder()
                .with_target(false)
                .with_span_name(false)
                .with_span_path(false);
            lines.layer().with_writer(std::io::stderr).boxed()
        }
        LogFormat::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_target(false)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(std::io::stderr)
            .boxed(),
    };
    tracing::subscriber::set_global_default(
        tracing_subscriber::registry().with(layer.with_filter(targets)),
    )
}
