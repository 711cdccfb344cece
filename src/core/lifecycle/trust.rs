//! How far the documents can be trusted about an event.

use serde::{Deserialize, Serialize};

/// What speaks against the documents about one event. It is shown all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Trust {
    /// The last document contradicted itself about the event.
    #[serde(rename = "is_contradictory")]
    contradicts_itself: bool,
    /// Its type or its source changed from one document to another.
    #[serde(rename = "has_changed_kind")]
    changed_kind: bool,
    /// An earlier document had the source User, and the last one has none.
    lost_user_source: bool,
}

impl Trust {
    /// After a document that contradicts itself about the event, or does not, and that has no source for an event of
    /// source User, or has one.
    #[must_use]
    pub(super) fn after_document(self, contradicts_itself: bool, lost_user_source: bool) -> Self {
        Self {
            contradicts_itself,
            lost_user_source,
            ..self
        }
    }

    #[must_use]
    pub(super) fn after_change(self, is_other_kind: bool) -> Self {
        Self {
            changed_kind: self.changed_kind || is_other_kind,
            ..self
        }
    }

    /// What the last document alone says.
    #[must_use]
    pub(super) fn of_last_document(self) -> Self {
        Self {
            changed_kind: false,
            ..self
        }
    }

    /// Whether the last document can be taken at its word: otherwise it neither ends nor approves the event.
    pub(crate) fn in_last_document(self) -> bool {
        !self.contradicts_itself
    }

    /// Whether all documents agree about the event, so that it may be approved.
    pub(crate) fn in_all_documents(self) -> bool {
        self == Self::default()
    }
}
