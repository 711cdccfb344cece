//! A YAML document as a JSON value. Of YAML it accepts what a configuration file needs: one document, and neither
//! aliases nor tags.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Value};

/// Levels of mappings and sequences. The format needs three.
const MAX_DEPTH: usize = 8;

/// `Null` for a document without content.
///
/// # Errors
/// What is wrong, with its line and column.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut events = Events {
        parser: Parser::new_from_str(text),
        at: Marker::new(0, 1, 0),
    };
    let mut root = None;
    loop {
        match events.next()? {
            Event::DocumentStart(_) if root.is_some() => {
                return Err(events.error("has a second document"));
            }
            Event::DocumentStart(_) => {
                let first = events.next()?;
                root = Some(events.value(first, MAX_DEPTH)?);
            }
            Event::StreamEnd => return Ok(root.unwrap_or_default()),
            _ => {}
        }
    }
}

struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// The start of the last event, or the place of an error.
    at: Marker,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<Event<'a>, String> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.at = span.start;
                Ok(event)
            }
            Some(Err(problem)) => {
                self.at = *problem.marker();
                Err(self.error(&format!("is not valid YAML: {}", problem.info())))
            }
            None => Err(self.error("is not valid YAML: it ends too early")),
        }
    }

    fn error(&self, problem: &str) -> String {
        // A line counts from 1, a column from 0.
        let (line, column) = (self.at.line(), self.at.col() + 1);
        format!("line {line}, column {column}: the file {problem}")
    }

    /// The value that begins with this event.
    fn value(&mut self, first: Event<'a>, depth: usize) -> Result<Value, String> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(self.error("is nested too deep"));
        };
        match first {
            Event::Scalar(text, ScalarStyle::Plain, _, None) => Ok(plain(&text)),
            Event::Scalar(text, _, _, None) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(_, None) => {
                let mut values = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => return Ok(Value::Array(values)),
                        first => values.push(self.value(first, depth)?),
                    }
                }
            }
            Event::MappingStart(_, None) => {
                let mut members = Map::new();
                loop {
                    let key = match self.next()? {
                        Event::MappingEnd => return Ok(Value::Object(members)),
                        Event::Scalar(key, _, _, None) => key.into_owned(),
                        _ => return Err(self.error("has a key that is not a text")),
                    };
                    if members.contains_key(&key) {
                        return Err(self.error(&format!("has {key:?} twice")));
                    }
                    let first = self.next()?;
                    members.insert(key, self.value(first, depth)?);
                }
            }
            Event::Alias(_) => Err(self.error("has an alias: write its value instead")),
            Event::Scalar(..) | Event::SequenceStart(..) | Event::MappingStart(..) => {
                Err(self.error("has a tag: remove it"))
            }
            _ => Err(self.error("is not valid YAML: a value is missing")),
        }
    }
}

/// A scalar without quotes: null, a flag in the words of YAML 1.1, which exporter-toolkit reads, or a text. A number is
/// a text.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
            Value::Bool(true)
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            Value::Bool(false)
        }
        text => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn block_and_flow_forms_give_the_same_value() {
        for text in [
            "a: 1\nb: 'yes'\nc: [yes, ~]\n",
            "{a: 1, b: \"yes\", c: [true, null]}",
            "\u{feff}--- # comment\na: 1\nb: \"yes\"\nc:\n- on\n-\n...\n",
        ] {
            let expected = json!({"a": "1", "b": "yes", "c": [true, null]});
            assert_eq!(parse(text), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn null_is_an_empty_document_or_a_plain_scalar() {
        for text in ["", "\n\n", "# only a comment\n", "\u{feff}", "---\n", "~"] {
            assert_eq!(parse(text), Ok(Value::Null), "{text:?}");
        }
        for (text, is_null) in [
            ("a:", true),
            ("a: ~", true),
            ("a: null", true),
            ("a: \"\"", false),
            ("a: 'null'", false),
            ("a: []", false),
            ("a: nul", false),
        ] {
            assert_eq!(parse(text).unwrap()["a"].is_null(), is_null, "{text}");
        }
    }

    #[test]
    fn other_parts_of_yaml_are_refused_with_their_line() {
        for (text, line, words) in [
            ("a: 1\nb: *c\n", "2, column 4", "unknown anchor"),
            ("a: &c 1\nb: *c\n", "2, column 4", "alias"),
            ("a: !!str 1\n", "1, column 4", "tag"),
            ("a: !x [1]\n", "1, column 4", "tag"),
            ("a: 1\n---\nb: 1\n", "2, column 1", "second document"),
            ("? [1]\n: 2\n", "1, column 3", "key"),
            ("a: 1\nb: 1\na: 2\n", "3, column 1", "twice"),
            ("a: [1\n", "2, column 1", "is not valid YAML"),
            ("a: 1\n\tb: 2\n", "1, column 4", "is not valid YAML"),
            ("a: 'x\n", "1, column 4", "is not valid YAML"),
            (&"[".repeat(20), "1, column 9", "too deep"),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.contains(words), "{text:?}: {problem}");
            let line = format!("line {line}: the file ");
            assert!(problem.starts_with(&line), "{text:?}: {problem}");
        }
    }
}
