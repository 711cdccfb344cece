//! JSON that is escaped for a terminal, and JSON of a bounded size.

use bytes::BufMut as _;
use serde::ser::{Error as _, Serialize};

use crate::base::text::escape_json;

/// Indented, with a line break at the end, and escaped for a terminal.
pub(crate) fn to_text<T: Serialize>(value: &T) -> serde_json::Result<String> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    Ok(escape_json(json))
}

/// Escaped for a terminal. `None` if the JSON would be longer than `max` bytes, of which no more are kept meanwhile.
pub(crate) fn to_vec_up_to<T: Serialize>(
    value: &T,
    max: usize,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let mut json = Vec::new().limit(max).writer();
    match serde_json::to_writer(&mut json, value) {
        Err(error) if error.is_io() => return Ok(None),
        result => result?,
    }
    // serde_json writes UTF-8.
    let json =
        String::from_utf8(json.into_inner().into_inner()).map_err(serde_json::Error::custom)?;
    let json = escape_json(json);
    Ok((json.len() <= max).then(|| json.into_bytes()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn escapes_count_for_the_bound() {
        let up_to = |max| to_vec_up_to(&"\u{202e}", max).unwrap();
        assert_eq!(up_to(8).unwrap(), b"\"\\u202e\"");
        assert_eq!(up_to(7), None);
    }

    #[test]
    fn values_past_the_bound_are_not_serialized() {
        struct Endless(Cell<u32>);
        impl Serialize for Endless {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq((0..1_000).inspect(|_| self.0.set(self.0.get() + 1)))
            }
        }
        let value = Endless(Cell::new(0));
        assert_eq!(to_vec_up_to(&value, 100).unwrap(), None);
        assert!(value.0.get() <= 50, "{}", value.0.get());
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
