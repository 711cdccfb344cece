//! Makes untrusted text safe to show: on one line, without characters that are invisible or change the text direction,
//! and of bounded length.
//!
//! Every output for people, and every label, uses these functions: logs, `list`, `approve`, the status page, metrics,
//! pushed alerts and span attributes. JSON keeps Azure's text, and escapes these characters.

use std::{borrow::Cow, fmt::Write as _};

/// Characters of a label value. Azure sends shorter texts; the limit protects the memory of Prometheus and
/// Alertmanager.
const MAX_LABEL_CHARS: usize = 256;

/// A space for a line break or a tab, U+FFFD for any other character that is invisible or changes the direction of
/// text, else the character itself.
///
/// Besides control characters these are interlinear annotations and the characters with the Unicode property
/// `Default_Ignorable_Code_Point`, which are drawn as nothing
/// (<https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt>).
pub(crate) fn visible(character: char) -> char {
    match character {
        '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => ' ',
        // Soft hyphen, combining grapheme joiner, Arabic letter mark.
        '\u{ad}' | '\u{34f}' | '\u{61c}'
        // Hangul fillers, Khmer vowels, Mongolian selectors.
        | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        // Zero-width characters, and marks, embeddings, overrides and isolates of the text direction.
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        // Variation selectors other than those of emoji, annotations, shorthand and musical controls, tags.
        | '\u{fe00}'..='\u{fe0d}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => char::REPLACEMENT_CHARACTER,
        _ if character.is_control() => char::REPLACEMENT_CHARACTER,
        _ => character,
    }
}

pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    if text
        .chars()
        .all(|character| visible(character) == character)
    {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(visible).collect())
    }
}

/// UTF-16 units of an event in the Windows event log, which refuses texts of more than 31,839.
#[cfg(any(windows, test))]
const MAX_EVENT_LENGTH: usize = 31_000;

/// A text for the Windows event log, cut to a length that it accepts. The event viewer replaces `%1` in a text by
/// another one, so a space keeps `%` and a digit apart
/// (<https://learn.microsoft.com/windows/win32/api/winbase/nf-winbase-reporteventw>).
#[cfg(any(windows, test))]
pub(crate) fn event_log_text(text: &str) -> String {
    let mut shown = String::new();
    let mut length = 0;
    for character in text.trim_end().chars() {
        if character.is_ascii_digit() && shown.ends_with('%') {
            shown.push(' ');
            length += 1;
        }
        length += character.len_utf16();
        if length > MAX_EVENT_LENGTH {
            break;
        }
        shown.push(character);
    }
    shown
}

/// A label value: at most 256 characters. Metrics and pushed alerts use the same values, so that Alertmanager merges
/// the alert of a rule and a pushed one.
pub(crate) fn label_value(text: &str) -> Cow<'_, str> {
    // Most values. One pass over bytes is many times faster than two over characters.
    if text.len() <= MAX_LABEL_CHARS && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(MAX_LABEL_CHARS) {
        Some(_) => Cow::Owned(text.chars().take(MAX_LABEL_CHARS).map(visible).collect()),
        None => sanitize(text),
    }
}

/// At most the first `max` bytes, in whole characters.
pub(crate) fn cut(mut text: String, max: usize) -> String {
    text.truncate(text.floor_char_boundary(max));
    text
}

/// The first `max_chars` characters, then an ellipsis if there are more.
pub(crate) fn excerpt(text: &str, max_chars: usize) -> String {
    let mut excerpt: String = text.chars().take(max_chars).map(visible).collect();
    if text.chars().nth(max_chars).is_some() {
        excerpt.push('…');
    }
    excerpt
}

/// JSON with the characters that [`visible`] replaces as `\uXXXX`, which every decoder restores. They
/// occur only in strings; a line break or a tab is layout, because strings have them escaped (RFC 8259, section 7).
pub(crate) fn escape_json(json: String) -> String {
    let is_shown = |c: char| c.is_ascii_whitespace() || visible(c) == c;
    if json.chars().all(is_shown) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if is_shown(character) {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(escaped, "\\u{unit:04x}").ok();
        }
    }
    escaped
}

/// About the length of a text in JSON as [`escape_json`] returns it.
pub(crate) fn json_length(text: &str) -> usize {
    // Most texts, at each poll.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.len();
    }
    let escapes = text.chars().filter(|c| visible(*c) != *c).count();
    text.len() + 5 * escapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_log_text_has_no_insertion_and_a_bounded_length() {
        assert_eq!(event_log_text("a%20b 100% %n\n"), "a% 20b 100% %n");
        let long = "𝄞%1".repeat(MAX_EVENT_LENGTH);
        let length = event_log_text(&long).encode_utf16().count();
        assert!(
            (MAX_EVENT_LENGTH - 2..=MAX_EVENT_LENGTH).contains(&length),
            "{length}"
        );
    }

    #[test]
    fn control_bidi_and_zero_width_characters_are_made_visible() {
        let invisible = [
            0x00, 0x07, 0x1b, 0x7f, 0x85, 0x9b, 0xad, 0x61c, 0x200b, 0x200c, 0x200d, 0x200e,
            0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2060, 0x2066, 0x2067, 0x2068, 0x2069,
            0xfeff, 0xe0041, 0xfe00, 0xfe0d, 0xe0100, 0x180b, 0xfff0, 0x1d173,
        ];
        for code in invisible {
            let text = format!("a{}b", char::from_u32(code).unwrap());
            assert_eq!(sanitize(&text), "a\u{fffd}b", "U+{code:04X}");
        }
        assert_eq!(sanitize("a\nb\tc\r\nd\u{2028}e"), "a b c  d e");
        let plain = "Virtual machine “web_0” – größer 虚拟机 🚀 ⚠\u{fe0f} ⚠\u{fe0e}";
        assert!(matches!(sanitize(plain), Cow::Borrowed(text) if text == plain));
    }

    #[test]
    fn invisible_characters_of_json_are_escaped_and_restored_by_a_decoder() {
        let text = "a\u{7}\u{7f}\u{9b}\u{202e}\u{200b}\u{2028}\n\t\\\"é虚🚀\u{e0041}";
        let written = escape_json(serde_json::to_string_pretty(&[text]).unwrap());
        let expected = r#""a\u0007\u007f\u009b\u202e\u200b\u2028\n\t\\\"é虚🚀\udb40\udc41""#;
        assert_eq!(written, format!("[\n  {expected}\n]"));
        assert_eq!(
            serde_json::from_str::<[String; 1]>(&written).unwrap(),
            [text]
        );
    }

    #[test]
    fn the_length_in_json_counts_escapes() {
        for text in ["web_0", "größer", "\u{7f}web\u{1b}"] {
            let escaped = escape_json(serde_json::to_string(text).unwrap());
            assert_eq!(json_length(text), escaped.len() - 2, "{text:?}");
        }
    }

    #[test]
    fn excerpts_are_bounded_and_without_control_characters() {
        assert_eq!(excerpt("a\u{1b}[31mé\n", 80), "a\u{fffd}[31mé ");
        assert_eq!(excerpt("éabc", 3), "éab…");
        assert_eq!(excerpt("éab", 3), "éab");
    }

    #[test]
    fn label_values_have_at_most_256_characters() {
        assert_eq!(label_value(&"é".repeat(256)), "é".repeat(256));
        assert_eq!(
            label_value(&"é\u{202e}".repeat(200)),
            "é\u{fffd}".repeat(128)
        );
    }
}
