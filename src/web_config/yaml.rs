//! A YAML document as a tree. Of YAML it accepts what a configuration file needs: one document, and neither aliases
//! nor tags.

use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

/// Levels of mappings and sequences. The format needs three.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// From 1.
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// `is_plain` is false for a quoted text and for a block of text.
    Scalar {
        text: String,
        is_plain: bool,
    },
    Sequence(Vec<Node>),
    /// In the order of the document; a key can occur twice.
    Mapping(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: Node,
}

impl Node {
    /// True for a plain scalar that stands for nothing in YAML.
    pub(super) fn is_null(&self) -> bool {
        let Value::Scalar { text, is_plain } = &self.value else {
            return false;
        };
        *is_plain && ["", "~", "null", "Null", "NULL"].contains(&text.as_str())
    }
}

/// Why a text is not such a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) problem: String,
}

fn error(line: usize, problem: impl Into<String>) -> SyntaxError {
    SyntaxError {
        line,
        problem: problem.into(),
    }
}

/// `None` for a document without content.
pub(super) fn parse(text: &str) -> Result<Option<Node>, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut events = Events {
        parser: Parser::new_from_str(text),
        line: 1,
    };
    let mut root = None;
    loop {
        match events.next()? {
            Event::DocumentStart(_) if root.is_some() => {
                return Err(error(events.line, "has a second document"));
            }
            Event::DocumentStart(_) => {
                let first = events.next()?;
                root = Some(events.node(first, MAX_DEPTH)?);
            }
            Event::StreamEnd => return Ok(root),
            _ => {}
        }
    }
}

struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Of the last event.
    line: usize,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<Event<'a>, SyntaxError> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.line = span.start.line();
                Ok(event)
            }
            Some(Err(problem)) => Err(error(
                problem.marker().line(),
                format!("is no YAML: {}", problem.info()),
            )),
            None => Err(error(self.line, "is no YAML: it ends too early")),
        }
    }

    /// The node that begins with this event.
    fn node(&mut self, first: Event<'a>, depth: usize) -> Result<Node, SyntaxError> {
        let line = self.line;
        let Some(depth) = depth.checked_sub(1) else {
            return Err(error(line, "is nested too deep"));
        };
        let value = match first {
            Event::Scalar(.., Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => return Err(error(line, "has a tag: remove it")),
            Event::Scalar(text, style, ..) => Value::Scalar {
                text: text.into_owned(),
                is_plain: style == ScalarStyle::Plain,
            },
            Event::SequenceStart(..) => {
                let mut nodes = Vec::new();
                loop {
                    match self.next()? {
                        Event::SequenceEnd => break Value::Sequence(nodes),
                        first => nodes.push(self.node(first, depth)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut entries = Vec::new();
                loop {
                    match self.next()? {
                        Event::MappingEnd => break Value::Mapping(entries),
                        first => entries.push(self.entry(first, depth)?),
                    }
                }
            }
            Event::Alias(_) => {
                return Err(error(line, "has an alias: write its value instead"));
            }
            _ => return Err(error(line, "is no YAML: a value is missing")),
        };
        Ok(Node { line, value })
    }

    fn entry(&mut self, first: Event<'a>, depth: usize) -> Result<Entry, SyntaxError> {
        let key = self.node(first, depth)?;
        let Value::Scalar { text, .. } = key.value else {
            return Err(error(key.line, "has a key that is not a text"));
        };
        let first = self.next()?;
        Ok(Entry {
            key: text,
            line: key.line,
            value: self.node(first, depth)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> (usize, String) {
        let error = parse(text).unwrap_err();
        (error.line, error.problem)
    }

    fn entries(node: &Node) -> &[Entry] {
        match &node.value {
            Value::Mapping(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn block_and_flow_forms_give_the_same_tree() {
        let without_lines = |text: &str| {
            let root = parse(text).unwrap().unwrap();
            entries(&root)
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.value.clone()))
                .collect::<Vec<_>>()
        };
        let block = without_lines("a: 1\nb: 'two'\n");
        assert_eq!(block, without_lines("{a: 1, b: \"two\"}"));
        assert_eq!(
            block,
            without_lines("\u{feff}--- # comment\na: 1\nb: \"two\"\n...\n")
        );
        let scalar = |text: &str, is_plain| Value::Scalar {
            text: text.to_owned(),
            is_plain,
        };
        assert_eq!(block[0], ("a".to_owned(), scalar("1", true)));
        assert_eq!(block[1], ("b".to_owned(), scalar("two", false)));
    }

    #[test]
    fn a_text_without_content_is_no_document() {
        for text in ["", "\n\n", "# only a comment\n", "\u{feff}"] {
            assert_eq!(parse(text), Ok(None), "{text:?}");
        }
        assert!(parse("---\n").unwrap().unwrap().is_null());
    }

    #[test]
    fn null_is_a_plain_scalar() {
        for (text, is_null) in [
            ("a:", true),
            ("a: ~", true),
            ("a: null", true),
            ("a: \"\"", false),
            ("a: 'null'", false),
            ("a: []", false),
            ("a: nul", false),
        ] {
            let root = parse(text).unwrap().unwrap();
            assert_eq!(entries(&root)[0].value.is_null(), is_null, "{text}");
        }
    }

    #[test]
    fn lines_are_counted_from_one() {
        let root = parse("a: 1\n\nb:\n  c: 2\n").unwrap().unwrap();
        let b = &entries(&root)[1];
        assert_eq!((b.line, entries(&b.value)[0].line), (3, 4));
    }

    #[test]
    fn other_parts_of_yaml_are_refused_with_their_line() {
        for (text, line, words) in [
            ("a: 1\nb: *c\n", 2, "unknown anchor"),
            ("a: &c 1\nb: *c\n", 2, "alias"),
            ("a: !!str 1\n", 1, "tag"),
            ("a: !x [1]\n", 1, "tag"),
            ("a: 1\n---\nb: 1\n", 2, "second document"),
            ("? [1]\n: 2\n", 1, "key"),
            ("a: [1\n", 2, "is no YAML"),
            ("a: 1\n\tb: 2\n", 1, "is no YAML"),
            ("a: 'x\n", 1, "is no YAML"),
            (&"[".repeat(20), 1, "too deep"),
        ] {
            let (found, problem) = problem(text);
            assert!(problem.contains(words), "{text:?}: {problem}");
            assert_eq!(found, line, "{text:?}: {problem}");
        }
    }
}
