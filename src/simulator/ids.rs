//! Generates event ids.

use uuid::{Builder, Uuid};

use crate::event::EventId;

/// A GUID of version 4 in upper case, as the service writes it. Equal parts give the same id.
pub(super) fn event_id(parts: [u64; 4]) -> EventId {
    let parts = parts.map(u64::to_be_bytes);
    let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, parts.as_flattened());
    let id = Builder::from_random_bytes(hash.into_bytes()).into_uuid();
    EventId::new(&format!("{:X}", id.hyphenated()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_guids_in_upper_case() {
        let mut seen = std::collections::HashSet::new();
        for number in 0..10 {
            for cycle in 0..10 {
                let id = event_id([7, number, cycle, 0]);
                assert!(id.as_guid().is_some(), "{id}");
                assert_eq!(id.as_str(), id.as_str().to_ascii_uppercase());
                assert_eq!(id.as_str().as_bytes()[14], b'4');
                assert_eq!(id, event_id([7, number, cycle, 0]));
                assert!(seen.insert(id));
            }
        }
    }
}
