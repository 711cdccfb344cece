//! The JSON of the state file. Unknown members are ignored, so that a newer release can add some; a newer `version`
//! marks an incompatible change.

use std::{cmp::Reverse, io, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    azure::event::EventScope,
    base::json,
    core::{engine::SavedState, lifecycle::TrackedEvent},
};

/// The version written; older ones are read.
const VERSION: u32 = 1;

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
        json::to_vec_up_to(&file, max)
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
            let Some(json) = json::to_vec_up_to(&*tracked, left)? else {
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
        serde_json::from_slice(text).map_err(|error| error.to_string())
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
