//! Typed access to the members of a mapping. A member that is not known, occurs twice or has another type is an error.

use super::yaml::{Entry, Node, SyntaxError, Value};
use crate::text::excerpt;

/// Longer texts from the file are cut off in messages.
const MAX_SHOWN_CHARS: usize = 80;

/// Why a file was refused, in one line. It does not contain passwords, hashes and keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {subject} {problem}")]
pub struct SettingError {
    line: usize,
    /// The path of the member, such as `tls_server_config.cert_file`.
    subject: String,
    problem: String,
}

impl From<SyntaxError> for SettingError {
    fn from(error: SyntaxError) -> Self {
        Self {
            line: error.line,
            subject: "the file".to_owned(),
            problem: shown(&error.problem),
        }
    }
}

/// A text of the file in a message.
pub(super) fn shown(text: &str) -> String {
    excerpt(text, MAX_SHOWN_CHARS)
}

/// The members of a mapping.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// Of the mapping; empty for the whole file.
    path: &'static str,
    line: usize,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    /// Any keys. No node and null are a mapping without members.
    pub(super) fn any(node: Option<&'a Node>, path: &'static str) -> Result<Self, SettingError> {
        let line = node.map_or(1, |node| node.line);
        let entries = match node.map(|node| &node.value) {
            Some(Value::Mapping(entries)) => entries.as_slice(),
            None => &[],
            Some(_) if node.is_some_and(Node::is_null) => &[],
            Some(_) => {
                let subject = if path.is_empty() { "the file" } else { path };
                return Err(SettingError {
                    line,
                    subject: subject.to_owned(),
                    problem: "is not a mapping of keys to values".to_owned(),
                });
            }
        };
        let fields = Self {
            path,
            line,
            entries,
        };
        for (at, entry) in entries.iter().enumerate() {
            if entries.iter().take(at).any(|other| other.key == entry.key) {
                return Err(fields.error_at(entry.line, &entry.key, "occurs twice"));
            }
        }
        Ok(fields)
    }

    /// Only these keys.
    pub(super) fn of(
        node: Option<&'a Node>,
        path: &'static str,
        known: &[&str],
    ) -> Result<Self, SettingError> {
        let fields = Self::any(node, path)?;
        for entry in fields.entries {
            if !known.contains(&entry.key.as_str()) {
                let problem = format!("is not known: use {}", known.join(", "));
                return Err(fields.error_at(entry.line, &entry.key, problem));
            }
        }
        Ok(fields)
    }

    fn error_at(&self, line: usize, key: &str, problem: impl Into<String>) -> SettingError {
        let dot = if self.path.is_empty() { "" } else { "." };
        SettingError {
            line,
            subject: format!("{}{dot}{}", self.path, shown(key)),
            problem: problem.into(),
        }
    }

    /// About a member, or about its absence.
    pub(super) fn error(&self, key: &str, problem: impl Into<String>) -> SettingError {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        self.error_at(entry.map_or(self.line, |entry| entry.line), key, problem)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// `None` for null too.
    pub(super) fn node(&self, key: &str) -> Option<&'a Node> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        (!entry.value.is_null()).then_some(&entry.value)
    }

    /// Any scalar: numbers and flags are texts too.
    pub(super) fn scalar(&self, key: &str) -> Result<Option<&'a str>, SettingError> {
        match self.node(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::Scalar { text, .. }) => Ok(Some(text)),
            Some(_) => Err(self.error(key, "is not a text")),
        }
    }

    /// A scalar that is not empty.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, SettingError> {
        Ok(self.scalar(key)?.filter(|text| !text.is_empty()))
    }

    /// With the words of YAML 1.1, which exporter-toolkit reads.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, SettingError> {
        let Some(node) = self.node(key) else {
            return Ok(None);
        };
        let word = match &node.value {
            Value::Scalar {
                text,
                is_plain: true,
            } => text.as_str(),
            _ => "",
        };
        match word {
            "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
                Ok(Some(true))
            }
            "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n"
            | "N" => Ok(Some(false)),
            _ => Err(self.error(key, "is not a flag: use true or false, without quotes")),
        }
    }

    /// A sequence of scalars.
    pub(super) fn list(&self, key: &str) -> Result<Option<Vec<&'a str>>, SettingError> {
        let Some(node) = self.node(key) else {
            return Ok(None);
        };
        let Value::Sequence(nodes) = &node.value else {
            return Err(self.error(key, "is not a list"));
        };
        let texts = nodes.iter().map(|node| match &node.value {
            Value::Scalar { text, .. } if !node.is_null() => Ok(text.as_str()),
            _ => Err(self.error_at(node.line, key, "has an entry that is not a text")),
        });
        texts.collect::<Result<_, _>>().map(Some)
    }
}
