//! The serialized form of the state file. Unknown members are ignored, so that a newer release can add some; a newer
//! `version` marks an incompatible change.

mod event;

use std::{cmp::Reverse, collections::BTreeSet, io, sync::Arc};

use serde::{Deserialize, Serialize};

use self::event::SavedEvent;
use crate::{
    engine::SavedState,
    event::{EventId, EventScope},
    json,
    lifecycle::TrackedEvent,
    time::Timestamp,
};

/// The version written; older ones are read.
const VERSION: u32 = 1;

impl SavedState {
    /// At most `max` bytes, and the number of events that are left out for that.
    pub fn to_json(&self, max: usize) -> io::Result<(Vec<u8>, usize)> {
        let whole = self.file(|_| true);
        if let Some(json) = json::to_vec_up_to(&whole, max)? {
            return Ok((json, 0));
        }
        let kept = self.most_important(max)?;
        let reduced = self.file(|tracked| kept.contains(&tracked.event.id));
        let json = json::to_vec_up_to(&reduced, max)?;
        let omitted = self.events.len() - reduced.events.len();
        let json = json.ok_or(io::ErrorKind::FileTooLarge)?;
        Ok((json, omitted))
    }

    fn file(&self, is_kept: impl Fn(&TrackedEvent) -> bool) -> StateFile {
        StateFile {
            version: VERSION,
            boot_id: self.boot_id.clone(),
            heartbeat_at: Time(self.heartbeat_at),
            document_at: self.document_at.map(Time),
            document_incarnation: self.document_incarnation,
            warming_up_until: self.warming_up_until.map(Time),
            vm_name: self.vm_name.clone(),
            vm_id: self.vm_id.clone(),
            events: self
                .events
                .iter()
                .map(AsRef::as_ref)
                .filter(|tracked| is_kept(tracked))
                .map(SavedEvent::from)
                .collect(),
        }
    }

    /// The ids of the events that fit into `max` bytes: pending events that name this VM first, ended ones last.
    fn most_important(&self, max: usize) -> io::Result<BTreeSet<&EventId>> {
        let without_events = json::to_vec_up_to(&self.file(|_| false), max)?;
        let mut left = max.saturating_sub(without_events.map_or(max, |json| json.len()));
        let mut events: Vec<_> = self.events.iter().collect();
        events.sort_by_key(|tracked| {
            let is_other = tracked.scope == EventScope::Other;
            (
                tracked.end.map(|end| Reverse(end.at)),
                is_other,
                tracked.first_seen_at,
            )
        });
        let mut kept = BTreeSet::new();
        for tracked in events {
            let saved = SavedEvent::from(&**tracked);
            let Some(json) = json::to_vec_up_to(&saved, left)? else {
                break;
            };
            // The comma between two events.
            left = left.saturating_sub(json.len() + 1);
            kept.insert(&tracked.event.id);
        }
        Ok(kept)
    }

    /// The error says what is wrong with the text.
    pub fn from_json(text: &[u8]) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the file is empty".to_owned());
        }
        let version = serde_json::from_slice::<Versioned>(text)
            .map_err(|error| error.to_string())?
            .version;
        if version > VERSION {
            return Err(format!(
                "written by a newer version of this program (version {version}, supported {VERSION})"
            ));
        }
        let file: StateFile = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        Ok(Self {
            boot_id: file.boot_id,
            heartbeat_at: file.heartbeat_at.0,
            document_at: file.document_at.map(|at| at.0),
            document_incarnation: file.document_incarnation,
            warming_up_until: file.warming_up_until.map(|at| at.0),
            vm_name: file.vm_name,
            vm_id: file.vm_id,
            events: file
                .events
                .into_iter()
                .map(|tracked| Arc::new(TrackedEvent::from(tracked)))
                .collect(),
        })
    }
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct StateFile {
    version: u32,
    boot_id: Option<String>,
    heartbeat_at: Time,
    document_at: Option<Time>,
    document_incarnation: Option<i64>,
    warming_up_until: Option<Time>,
    #[serde(rename = "own_name")]
    vm_name: Option<String>,
    vm_id: Option<String>,
    events: Vec<SavedEvent>,
}

/// RFC 3339 with full precision.
#[derive(Debug, Clone, Copy)]
struct Time(Timestamp);

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.rfc3339_exact())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let at = Timestamp::parse(&text);
        at.map(Self)
            .ok_or_else(|| serde::de::Error::custom(format_args!("{text:?} is not a time")))
    }
}
