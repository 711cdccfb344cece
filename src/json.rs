//! JSON of a bounded size.

use serde::Serialize;

use crate::text::escape_json;

/// Escaped for a terminal. `None` if the JSON would be longer than `max` bytes.
pub(crate) fn to_vec_up_to<T: Serialize>(
    value: &T,
    max: usize,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let json = escape_json(serde_json::to_string(value)?);
    Ok((json.len() <= max).then(|| json.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_count_for_the_bound() {
        let up_to = |max| to_vec_up_to(&"\u{202e}", max).unwrap();
        assert_eq!(up_to(8).unwrap(), b"\"\\u202e\"");
        assert_eq!(up_to(7), None);
    }

    #[test]
    fn json_that_exceeds_the_bound_is_not_returned() {
        let value = ["abc", "d"];
        let whole = serde_json::to_vec(&value).unwrap();
        let up_to = |max| to_vec_up_to(&value, max).unwrap();
        assert_eq!(up_to(whole.len()), Some(whole.clone()));
        assert_eq!(up_to(whole.len() - 1), None);
    }
}
