//! Durations in scenario files.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::time::parse_duration;

/// Longer than any notice of Azure; keeps sums of durations in range.
pub(super) const MAX_DURATION: Duration = Duration::from_hours(366 * 24);

/// A duration such as `"15m"`, at most [`MAX_DURATION`].
#[derive(Clone, Copy, Default)]
pub(super) struct ScenarioDuration(pub(super) Duration);

impl<'de> Deserialize<'de> for ScenarioDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let span = parse_duration(&text).map_err(D::Error::custom)?;
        if span > MAX_DURATION {
            return Err(D::Error::custom(format!(
                "{text:?} is longer than 366 days"
            )));
        }
        Ok(Self(span))
    }
}
