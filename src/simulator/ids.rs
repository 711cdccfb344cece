//! Generates event ids.

use crate::event::EventId;

/// A GUID in upper case, as the service writes it. Equal parts give the same id.
pub(super) fn event_id(parts: [u64; 4]) -> EventId {
    let mixed = |salt: u64| {
        parts
            .iter()
            .fold(salt, |state, part| split_mix(state ^ *part))
    };
    let number = (u128::from(mixed(1)) << 64) | u128::from(mixed(2));
    // Version 4, variant 1 (RFC 9562).
    let number = (number & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{number:032X}");
    let mut text = String::with_capacity(36);
    for (index, digit) in hex.chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    EventId::new(&text)
}

/// The finaliser of `SplitMix64`.
fn split_mix(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
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
