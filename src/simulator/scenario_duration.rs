//! Durations in scenario files, such as `"15m"`, at most [`MAX_DURATION`].

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error};

use crate::time::parse_duration;

/// Longer than any notice of Azure; keeps sums of durations in range.
pub(super) const MAX_DURATION: Duration = Duration::from_hours(366 * 24);

/// Zero for null.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    optional_duration(deserializer).map(Option::unwrap_or_default)
}

/// `None` for null.
pub(super) fn optional_duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.as_deref().map(parse).transpose()
}

fn parse<E: Error>(text: &str) -> Result<Duration, E> {
    let span = parse_duration(text).map_err(E::custom)?;
    if span > MAX_DURATION {
        return Err(E::custom(format!("{text:?} is longer than 366 days")));
    }
    Ok(span)
}
