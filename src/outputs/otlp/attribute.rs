//! The attributes that spans and log records have in common. Pure.

use std::time::Duration;

use opentelemetry::{Array, KeyValue, StringValue, Value};

use crate::{
    azure::event::{Member, MemberValue, resource_name},
    base::{label::label_values, text::sanitize},
    core::lifecycle::TrackedEvent,
};

label_values! {
    pub(in crate::outputs::otlp) enum Key {
        Outcome = "azure.scheduled_event.outcome",
        ObservedInterruption = "azure.scheduled_event.observed_interruption",
        PhysicalHost = "azure.scheduled_event.physical_host",
        MovedTo = "azure.scheduled_event.moved_to",
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
    let mut all: Vec<_> = Member::ALL
        .iter()
        .filter_map(|member| Some((member, (member.value)(&tracked.shown)?)))
        .filter(|(_, value)| !matches!(value, MemberValue::Text("")))
        .map(|(member, value)| KeyValue::new(member.attribute, attribute_value(value)))
        .collect();
    let host = tracked.physical_host();
    all.extend(host.map(|host| Key::PhysicalHost.with_text(host)));
    if !is_announcement {
        let outcome = tracked.end.map(|end| end.outcome.as_str());
        all.extend(outcome.map(|outcome| Key::Outcome.with(outcome)));
        all.extend(tracked.moved_to().map(|host| Key::MovedTo.with_text(host)));
        let interruption = tracked.longest_interruption;
        all.extend(interruption.map(|length| Key::ObservedInterruption.with_seconds(length)));
    }
    all
}

fn attribute_value(value: MemberValue<'_>) -> Value {
    let text = |text: &str| sanitize(text).into_owned();
    match value {
        MemberValue::Id(id) => text(id.as_str()).into(),
        MemberValue::Text(value) => text(value).into(),
        MemberValue::Names(names) => {
            let names = names.iter().map(|name| text(resource_name(name)));
            Value::Array(Array::String(names.map(StringValue::from).collect()))
        }
        MemberValue::Time(at) => at.rfc3339().into(),
        MemberValue::Seconds(seconds) => seconds.cast_signed().into(),
    }
}
