//! Foreign text, made fit to be shown: nothing of it may steer a terminal, break a log line, or be endless.

/// A control character as what can be seen; any other as it is.
pub fn printable(character: char) -> char {
    if character.is_control() {
        char::REPLACEMENT_CHARACTER
    } else {
        character
    }
}

/// The beginning of a text, in at most so many characters and a sign that there was more.
pub fn excerpt(text: &str, longest: usize) -> String {
    let mut shown: String = text.chars().take(longest).map(printable).collect();
    if text.chars().nth(longest).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_has_an_end_and_steers_nothing() {
        assert_eq!(excerpt("a\u{1b}[31mé\n", 80), "a\u{fffd}[31mé\u{fffd}");
        assert_eq!(excerpt("éabc", 3), "éab…");
        assert_eq!(excerpt("éab", 3), "éab");
    }
}
