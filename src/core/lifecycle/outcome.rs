//! The end of an event.

use serde::{Deserialize, Serialize};

use crate::base::{label::label_values, time::Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The first document without the event.
    pub at: Timestamp,
    pub outcome: Outcome,
}

label_values! {
    /// How an event ended, as far as the evidence shows: the values of the label `outcome`.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Outcome {
        /// It left the document before `NotBefore`, and polls were frequent enough to see a start.
        Cancelled = "cancelled",
        /// It was seen as Started, was listed until its `NotBefore`, was approved, or ended with a boot of this VM.
        Completed = "completed",
        /// The evidence shows neither.
        Unknown = "unknown",
    }
}
