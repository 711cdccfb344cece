//! Lists of `name=value` in the format of W3C Baggage (<https://www.w3.org/TR/baggage/#header-content>): values are
//! percent-encoded.

use percent_encoding::percent_decode_str;

/// Empty entries are skipped.
pub(super) fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

/// A decoded name and value. `None` without a name, without `=`, or where the encoding is invalid.
pub(super) fn pair(entry: &str) -> Option<(String, String)> {
    let (name, value) = entry.split_once('=')?;
    let (name, value) = (decode(name.trim())?, decode(value.trim())?);
    (!name.is_empty()).then_some((name, value))
}

/// Stricter than [`percent_decode_str`], which leaves `%zz` as it is.
fn decode(text: &str) -> Option<String> {
    let is_encoded = |rest: &str| {
        let digits = rest.as_bytes().first_chunk::<2>();
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_encoded) {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}
