//! What spans and log records have in common, as plain data.

use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    pub key: String,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Texts(Vec<String>),
}

/// A trace id or span id as it is shown: two digits for each byte.
pub fn hex<const BYTES: usize>(id: [u8; BYTES]) -> String {
    id.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a String cannot fail.
        write!(digits, "{byte:02x}").ok();
        digits
    })
}
