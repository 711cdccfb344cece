//! What spans and log records have in common, as plain data.

use serde::{Deserialize, Serialize};

use crate::base::text::sanitize;

/// An enum of names that `docs/reference.md` lists.
macro_rules! closed_set {
    ($(#[$meta:meta])* $vis:vis enum $set:ident { $($variant:ident = $name:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $set { $($variant),* }

        impl $set {
            #[cfg(test)]
            pub(in crate::outputs::otlp) const ALL: &[Self] = &[$(Self::$variant),*];

            $vis fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}
pub(super) use closed_set;

closed_set! {
    /// The keys of attributes.
    pub(in crate::outputs::otlp) enum Key {
        Id = "azure.scheduled_event.id",
        Type = "azure.scheduled_event.type",
        Status = "azure.scheduled_event.status",
        Source = "azure.scheduled_event.source",
        ResourceType = "azure.scheduled_event.resource_type",
        Resources = "azure.scheduled_event.resources",
        NotBefore = "azure.scheduled_event.not_before",
        Duration = "azure.scheduled_event.duration",
        Description = "azure.scheduled_event.description",
        Outcome = "azure.scheduled_event.outcome",
        ObservedInterruption = "azure.scheduled_event.observed_interruption",
        RescheduledFrom = "azure.scheduled_event.rescheduled_from",
        Interruption = "azure.scheduled_event.interruption",
        PreviousStatus = "azure.scheduled_event.previous_status",
        // Log records with the same value are the same record, sent again
        // (https://opentelemetry.io/docs/specs/semconv/registry/attributes/log/).
        Uid = "log.record.uid",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attribute {
    pub key: String,
    pub value: Value,
}

impl Attribute {
    pub(super) fn new(key: Key, value: Value) -> Self {
        Self {
            key: key.as_str().to_owned(),
            value,
        }
    }

    /// Invisible characters of the text are made visible.
    pub(super) fn text(key: Key, text: impl AsRef<str>) -> Self {
        Self::new(key, Value::Text(sanitize(text.as_ref()).into_owned()))
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Texts(Vec<String>),
}
