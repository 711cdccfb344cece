//! Events as IMDS lists them.

use serde_json::{Value, json};

use super::Reply;

/// A Freeze of `web_0` that is far ahead, with some members replaced.
pub(crate) fn event(members: &Value) -> Value {
    let mut event = json!({
        "EventId": "7B1E04C9-52DA-4F6E-9C38-A40D7E91B265",
        "EventStatus": "Scheduled",
        "EventType": "Freeze",
        "ResourceType": "VirtualMachine",
        "Resources": ["web_0"],
        "NotBefore": "Fri, 31 Dec 2999 23:59:59 GMT",
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    });
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

/// The id of one of many events.
pub(crate) fn numbered_id(number: usize) -> String {
    format!("{number:08X}-52DA-4F6E-9C38-A40D7E91B265")
}

/// The document with these events.
pub(crate) fn document(incarnation: u64, events: impl IntoIterator<Item = Value>) -> Reply {
    let events: Vec<_> = events.into_iter().collect();
    Reply::ok(json!({ "DocumentIncarnation": incarnation, "Events": events }).to_string())
}
