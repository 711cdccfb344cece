//! Comments fit into 120 columns.

use super::{Source, below, is_rust};

const MAX_COLUMNS: usize = 120;
/// Rows of tables and single words, such as URLs, cannot be wrapped.
fn is_too_wide(line: &str) -> bool {
    let comment = line.trim_start();
    let text = comment.trim_start_matches(['/', '!']).trim();
    comment.starts_with("//")
        && line.chars().count() > MAX_COLUMNS
        && text.contains(' ')
        && !text.starts_with('|')
}

#[test]
fn comments_are_at_most_120_columns_wide() {
    let mut wide = Vec::new();
    for Source { path, text } in ["src", "tests", "benches", "fuzz"]
        .into_iter()
        .flat_map(below)
    {
        if !is_rust(&path) {
            continue;
        }
        let lines = text.lines().zip(1..).filter(|(line, _)| is_too_wide(line));
        wide.extend(lines.map(|(_, number)| format!("{path}:{number}")));
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

#[test]
fn only_text_that_can_be_wrapped_is_too_wide() {
    let words = "word ".repeat(30);
    assert!(is_too_wide(&format!("    /// {words}")));
    assert!(!is_too_wide(&format!("/// {}", "word ".repeat(20))));
    assert!(!is_too_wide(&format!("//! | {words}")));
    assert!(!is_too_wide(&format!("/// <https://{}>", "a".repeat(120))));
    assert!(!is_too_wide(&format!("let text = \"{words}\";")));
}
