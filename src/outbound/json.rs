//! JSON of a bounded size.

use std::io::{self, Write};

use serde::Serialize;

use crate::text::escape_json;

/// Escaped for a terminal. `None` if the JSON would be longer than `max` bytes. Less than twice as much memory is used,
/// or four times as much for text of invisible characters alone.
pub(crate) fn to_vec_up_to<T: Serialize>(
    value: &T,
    max: usize,
) -> Result<Option<Vec<u8>>, serde_json::Error> {
    let mut written = Bounded {
        bytes: Vec::new(),
        max,
    };
    match serde_json::to_writer(&mut written, value) {
        Ok(()) => {
            let escaped = match String::from_utf8(written.bytes) {
                Ok(json) => escape_json(json).into_bytes(),
                Err(error) => error.into_bytes(),
            };
            Ok((escaped.len() <= max).then_some(escaped))
        }
        Err(error) if error.is_io() => Ok(None),
        Err(error) => Err(error),
    }
}

struct Bounded {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.max.saturating_sub(self.bytes.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
