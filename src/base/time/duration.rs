//! Durations as Prometheus writes them, and as prose for people.

use std::time::Duration;

const UNITS: [(&str, u64); 7] = [
    ("y", 365 * DAY),
    ("w", 7 * DAY),
    ("d", DAY),
    ("h", 60 * 60 * 1_000),
    ("m", 60 * 1_000),
    ("s", 1_000),
    ("ms", 1),
];
const DAY: u64 = 24 * 60 * 60 * 1_000;
/// Prometheus stores nanoseconds in 64 bits, with a sign: about 292 years.
const MAX_MILLIS: u64 = i64::MAX.unsigned_abs() / 1_000_000;

/// Parses a duration such as `250ms`, `5m`, `1h30m` or `1w`, by the grammar of Prometheus: whole numbers with the units
/// y, w, d, h, m, s and ms, each at most once and in this order, or a bare `0`.
///
/// # Errors
/// One line that quotes the value and shows a valid one.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || {
        format!(
            "{text:?} is not a duration: use whole numbers with the units y, w, d, h, m, s and ms in this order, such as \
             1h30m or 1500ms"
        )
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    if text.is_empty() {
        return Err(invalid());
    }
    // Shared by all iterations: a unit that repeats or is out of order is not found.
    let mut units = UNITS.iter();
    let mut total = Some(0_u64);
    let mut rest = text;
    while !rest.is_empty() {
        let unit_start = rest.find(|c: char| !c.is_ascii_digit());
        let (number, tail) = rest.split_at(unit_start.filter(|at| *at > 0).ok_or_else(invalid)?);
        let next_number = tail.find(|c: char| c.is_ascii_digit());
        let (unit, tail) = tail.split_at(next_number.unwrap_or(tail.len()));
        let (_, scale) = units.find(|(name, _)| *name == unit).ok_or_else(invalid)?;
        let part = number.parse::<u64>().ok();
        let part = part.and_then(|number| number.checked_mul(*scale));
        total = total.and_then(|total| total.checked_add(part?));
        rest = tail;
    }
    total
        .filter(|millis| *millis <= MAX_MILLIS)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is too long for a duration: use at most 292y"))
}

/// Formats a duration so that [`parse_duration`] reads it back: `1h30m`, `7d`, `1s500ms`. Less than a millisecond is
/// cut off. The largest unit is the day.
pub(crate) fn format_duration(duration: Duration) -> String {
    let parts = parts(duration).filter(|(number, _)| *number > 0);
    let parts: Vec<_> = parts
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    if parts.is_empty() {
        return "0s".to_owned();
    }
    parts.concat()
}

/// Days, hours, minutes, seconds and milliseconds.
fn parts(duration: Duration) -> impl Iterator<Item = (u128, &'static str)> {
    let units = UNITS.into_iter().skip_while(|(unit, _)| *unit != "d");
    units.scan(duration.as_millis(), |rest, (unit, scale)| {
        let number = *rest / u128::from(scale);
        *rest %= u128::from(scale);
        Some((number, unit))
    })
}

/// Formats a duration for people, with at most two units: `6d 23h`, `14m 9s`, `9s`, `0.4s`.
pub(crate) fn in_words(duration: Duration) -> String {
    if duration.as_secs() == 0 && !duration.is_zero() {
        return format!("{:.1}s", duration.as_secs_f64());
    }
    let mut parts = parts(duration).take_while(|(_, unit)| *unit != "ms");
    let largest = parts.find(|(number, unit)| *number > 0 || *unit == "s");
    let next = parts.next().filter(|(number, _)| *number > 0);
    let shown = largest.into_iter().chain(next);
    let shown: Vec<_> = shown
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_follow_the_grammar_of_prometheus() {
        for (text, millis) in [
            ("0", 0),
            ("0s", 0),
            ("250ms", 250),
            ("1h30m", 5_400_000),
            ("90m", 5_400_000),
            ("1w", 604_800_000),
            ("1y", 31_536_000_000),
            ("4d1h30m5s10ms", 351_005_010),
            ("1y2w3d4h5m6s7ms", 33_019_506_007),
            ("292y", 9_208_512_000_000),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_valid_example() {
        for text in [
            "", "5", "00", "s", "-1s", "+1s", "1 s", " 1s", "1w2", "1e9d", "1.5s", "1..2s", "1s1h",
            "1s1s", "1ms1s", "1S", "1µs", "1mo", "٣s",
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(
                error.contains(&format!("{text:?} is not a duration")) && error.contains("1500ms"),
                "{text:?}: {error}"
            );
        }
        for text in ["293y", "999999999999999999999d", "292y52w4d"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains("at most 292y"), "{text:?}: {error}");
        }
    }

    #[test]
    fn formatted_durations_have_no_unit_above_days() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (1_500, "1s500ms"),
            (130_000, "2m10s"),
            (604_800_000, "7d"),
            (31_536_000_000, "365d"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(format_duration(Duration::from_nanos(999_999)), "0s");
    }

    #[test]
    fn prose_has_at_most_two_units() {
        let prose = |seconds| in_words(Duration::from_secs(seconds));
        assert_eq!(prose(0), "0s");
        assert_eq!(prose(9), "9s");
        assert_eq!(prose(849), "14m 9s");
        assert_eq!(prose(900), "15m");
        assert_eq!(prose(604_799), "6d 23h");
        assert_eq!(in_words(Duration::from_millis(400)), "0.4s");
    }

    proptest! {
        #[test]
        fn formatted_duration_parses_to_the_same_value(millis in 0..=MAX_MILLIS) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_parsed_or_refused_without_a_panic(text in "[0-9ywdhms. µ]{0,12}") {
            parse_duration(&text).ok();
        }
    }
}
