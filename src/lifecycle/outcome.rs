//! The end of an event.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The first document without the event.
    pub at: Timestamp,
    pub outcome: Outcome,
}

/// How an event ended, as far as the evidence shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It left the document before `NotBefore`, and polls were frequent enough to see a start.
    Cancelled,
    /// It was seen as Started, was listed until its `NotBefore`, was approved, or ended with a boot of this VM.
    Completed,
    /// The evidence shows neither.
    Unknown,
}

impl Outcome {
    pub(crate) const ALL: [Self; 3] = [Self::Cancelled, Self::Completed, Self::Unknown];

    /// The value of the label `outcome`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }
}
