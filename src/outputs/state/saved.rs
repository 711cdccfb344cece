//! The JSON of the state file. Unknown members are ignored, so that a newer release can add some; a newer `version`
//! marks an incompatible change.

use std::{cmp::Reverse, io, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    azure::event::EventScope,
    base::{json as base_json, time::Timestamp},
    core::{engine::SavedState, lifecycle::TrackedEvent},
};

/// The version written; older ones are read.
const VERSION: u32 = 2;

impl SavedState {
    /// At most `max` bytes, and the number of events that are left out for that.
    pub fn to_json(&self, max: usize) -> io::Result<(Vec<u8>, usize)> {
        if let Some(json) = self.json(max)? {
            return Ok((json, 0));
        }
        let reduced = Self {
            events: self.most_important(max)?,
            ..self.clone()
        };
        let omitted = self.events.len() - reduced.events.len();
        let json = reduced.json(max)?.ok_or(io::ErrorKind::FileTooLarge)?;
        Ok((json, omitted))
    }

    fn json(&self, max: usize) -> serde_json::Result<Option<Vec<u8>>> {
        let file = StateFile {
            version: VERSION,
            state: self,
        };
        base_json::to_vec_up_to(&file, max)
    }

    /// The events that fit into `max` bytes: pending events that name this VM first, ended ones last. In the
    /// order of their ids.
    fn most_important(&self, max: usize) -> io::Result<Vec<Arc<TrackedEvent>>> {
        let without_events = Self {
            events: Vec::new(),
            ..self.clone()
        };
        let json = without_events.json(max)?;
        let mut left = max.saturating_sub(json.map_or(max, |json| json.len()));
        let mut events = self.events.clone();
        events.sort_by_key(|tracked| {
            let is_other = tracked.scope == EventScope::Other;
            (
                tracked.end.map(|end| Reverse(end.at)),
                is_other,
                tracked.first_seen_at,
            )
        });
        let mut kept = Vec::new();
        for tracked in events {
            let Some(json) = base_json::to_vec_up_to(&*tracked, left)? else {
                break;
            };
            // The comma between two events.
            left = left.saturating_sub(json.len() + 1);
            kept.push(tracked);
        }
        kept.sort_by(|one, other| one.shown.id.cmp(&other.shown.id));
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
        if version < 2 {
            let mut state = serde_json::from_slice(text).map_err(|error| error.to_string())?;
            upgrade(&mut state);
            return serde_json::from_value(state).map_err(|error| error.to_string());
        }
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }
}

/// In version 1 there was only the wall clock. The monotonic clock of a process without a state begins at its time, too.
fn upgrade(state: &mut Value) {
    const STEPS: [(&str, &str); 5] = [
        ("intended", "approval_decided_at"),
        ("withdrawn", "approval_withdrawn_at"),
        ("sent", "approval_sent_at"),
        ("accepted", "approved_at"),
        ("elsewhere", "approved_elsewhere_at"),
    ];
    let monotonic = |at: &Value| {
        let at = at.as_str().and_then(Timestamp::parse);
        let since_epoch = at.map(|at| at.saturating_since(Timestamp::UNIX_EPOCH));
        json!(since_epoch.and_then(|it| u64::try_from(it.as_nanos()).ok()))
    };
    let moment = |at: &Value| match at {
        Value::Null => Value::Null,
        at => json!({"wall": at, "monotonic": monotonic(at)}),
    };
    state["monotonic"] = monotonic(&state["heartbeat_at"]);
    state["document_at"] = moment(&state["document_at"]);
    state["warm_up_until"] = monotonic(&state["warming_up_until"]);
    let events = state.get_mut("events").and_then(Value::as_array_mut);
    let events = events.into_iter().flatten();
    for event in events.filter(|event| event.is_object()) {
        event["shown"] = event["event"].take();
        event["first_seen"] = monotonic(&event["first_seen_at"]);
        event["last_listed_at"] = moment(&event["last_listed_at"]);
        event["down_since"] = monotonic(&event["down_since"]);
        let steps = STEPS
            .iter()
            .map(|(step, member)| json!([step, event[*member]]));
        event["approval"] = steps.filter(|it| it[1].is_string()).collect();
    }
}

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize)]
struct StateFile<'a> {
    version: u32,
    #[serde(flatten)]
    state: &'a SavedState,
}
