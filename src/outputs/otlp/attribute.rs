//! The attributes that spans and log records have in common. Pure.

use std::time::Duration;

use opentelemetry::{Array, KeyValue, StringValue, Value};

use crate::{
    azure::event::{Source, resource_name},
    base::{label::label_values, text::sanitize, time::Timestamp},
    core::lifecycle::TrackedEvent,
};

label_values! {
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

impl Key {
    pub(super) fn with(self, value: impl Into<Value>) -> KeyValue {
        KeyValue::new(self.as_str(), value)
    }

    /// Invisible characters of the text are made visible.
    pub(super) fn with_text(self, text: impl AsRef<str>) -> KeyValue {
        self.with(sanitize(text.as_ref()).into_owned())
    }

    pub(super) fn with_seconds(self, length: Duration) -> KeyValue {
        self.with(length.as_secs_f64())
    }
}

/// The attributes of an event. Unknown values are absent; an announcement has no outcome and no interruption.
pub(super) fn of(tracked: &TrackedEvent, is_announcement: bool) -> Vec<KeyValue> {
    let event = &tracked.shown;
    let source = event.source.as_ref().map(Source::as_str);
    let not_before = event.not_before.map(Timestamp::rfc3339);
    let resources = event.resources.as_ref().map(|resources| {
        let names = resources.iter().map(|entry| sanitize(resource_name(entry)));
        let names = names.map(|name| StringValue::from(name.into_owned()));
        Key::Resources.with(Value::Array(Array::String(names.collect())))
    });
    let duration = event
        .duration_seconds
        .and_then(|seconds| i64::try_from(seconds).ok());
    let text = |key: Key, text: Option<&str>| text.map(|text| key.with_text(text));
    let known = [
        text(Key::Id, Some(event.id.as_str())),
        text(Key::Type, Some(event.event_type.as_str())),
        text(Key::Status, Some(event.status.as_str())),
        text(Key::Source, source),
        text(Key::ResourceType, event.resource_type.as_deref()),
        resources,
        text(Key::NotBefore, not_before.as_deref()),
        duration.map(|seconds| Key::Duration.with(seconds)),
        text(Key::Description, event.description_text()),
    ];
    let mut all: Vec<_> = known.into_iter().flatten().collect();
    if !is_announcement {
        let outcome = tracked.end.map(|end| end.outcome.as_str());
        all.extend(text(Key::Outcome, outcome));
        let interruption = tracked.longest_interruption;
        all.extend(interruption.map(|length| Key::ObservedInterruption.with_seconds(length)));
    }
    all
}
