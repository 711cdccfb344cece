//! Lists of `name=value` in the form of W3C Baggage (<https://www.w3.org/TR/baggage/#header-content>): values are
//! percent-encoded.

/// The entries of a list; empty ones are skipped.
pub(super) fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

/// Name and value, decoded. `None` without a name, without `=`, or where the encoding is broken.
pub(super) fn pair(entry: &str) -> Option<(String, String)> {
    let (name, value) = entry.split_once('=')?;
    let (name, value) = (decoded(name.trim())?, decoded(value.trim())?);
    (!name.is_empty()).then_some((name, value))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            decoded.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}
