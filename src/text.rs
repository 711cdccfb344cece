//! Sanitizes untrusted text for terminals and log lines: no control characters, bounded length.

/// Replaces a control character with U+FFFD.
pub(crate) fn printable(character: char) -> char {
    if character.is_control() {
        char::REPLACEMENT_CHARACTER
    } else {
        character
    }
}

/// The first `max_chars` characters, then an ellipsis if there are more.
pub(crate) fn excerpt(text: &str, max_chars: usize) -> String {
    let mut excerpt: String = text.chars().take(max_chars).map(printable).collect();
    if text.chars().nth(max_chars).is_some() {
        excerpt.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_bounded_and_without_control_characters() {
        assert_eq!(excerpt("a\u{1b}[31mé\n", 80), "a\u{fffd}[31mé\u{fffd}");
        assert_eq!(excerpt("éabc", 3), "éab…");
        assert_eq!(excerpt("éab", 3), "éab");
    }
}
