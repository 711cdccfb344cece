//! Time: points on the wall clock, the forms in which Azure and we write them, and the one place where clocks are read.
//!
//! Everything else takes a [`Moment`] as an argument, so that hours of an event's life are tested in milliseconds.

use std::time::Duration;

use jiff::{SignedDuration, civil, fmt::rfc2822, tz::Offset};

/// A point on the wall clock, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

/// One reading of both clocks, taken together.
///
/// The wall clock says when something was; the monotonic clock says how long ago that is, and does not jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// Time since an arbitrary start that stays the same while this process lives.
    pub monotonic: Duration,
}

/// The only reader of the system's clocks.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: std::time::Instant,
}

impl Clock {
    /// A clock whose monotonic side starts at zero now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that reads the clock"
    )]
    pub fn start() -> Self {
        Self {
            started: std::time::Instant::now(),
        }
    }

    /// Reads both clocks.
    pub fn now(&self) -> Moment {
        Moment {
            wall: Timestamp::now(),
            monotonic: self.started.elapsed(),
        }
    }
}

impl Moment {
    /// The moment `elapsed` later, by both clocks.
    #[must_use]
    pub fn after(self, elapsed: Duration) -> Self {
        Self {
            wall: self.wall.after(elapsed),
            monotonic: self.monotonic.saturating_add(elapsed),
        }
    }
}

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Self = Self(jiff::Timestamp::UNIX_EPOCH);

    /// The wall clock. Prefer [`Clock::now`], which reads the monotonic clock with it.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that reads the clock"
    )]
    pub fn now() -> Self {
        jiff::Timestamp::try_from(std::time::SystemTime::now()).map_or(Self::UNIX_EPOCH, Self)
    }

    /// From whole seconds since the epoch; `None` outside the years -9999 to 9999.
    pub fn from_unix_seconds(seconds: i64) -> Option<Self> {
        jiff::Timestamp::from_second(seconds).ok().map(Self)
    }

    /// From nanoseconds since the epoch; `None` outside the years -9999 to 9999.
    pub fn from_unix_nanos(nanos: i128) -> Option<Self> {
        jiff::Timestamp::from_nanosecond(nanos).ok().map(Self)
    }

    /// Nanoseconds since the epoch: all that is known of the point.
    pub fn as_unix_nanos(self) -> i128 {
        self.0.as_nanosecond()
    }

    /// Seconds since the epoch, as Prometheus writes them.
    pub fn as_unix_seconds(self) -> f64 {
        self.0.as_duration().as_secs_f64()
    }

    /// Reads a time as scheduled-events documents carry it: RFC 1123 with any weekday, with `GMT` or a numeric zone;
    /// RFC 3339, also without a zone, which then is UTC as all of Azure's times are; RFC 850.
    ///
    /// The weekday is not checked: hand-edited dates with a wrong one circulate, Microsoft's own page has some.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        rfc3339(text)
            .or_else(|| rfc1123(text))
            .or_else(|| rfc850(text))
            .map(Self)
    }

    /// `Tue, 17 Nov 2026 09:15:42 GMT`, the form of `NotBefore` since api-version 2017-08-01 (RFC 9110, section 5.6.7).
    pub fn rfc1123(self) -> String {
        self.0.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    /// `2026-11-17T09:15:42Z`, to the second.
    pub fn rfc3339(self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// `2026-11-17T09:15:42.123Z`, for records that need the milliseconds.
    pub fn rfc3339_millis(self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
    }

    /// RFC 3339 with every digit, for records that are read back.
    pub fn rfc3339_exact(self) -> String {
        self.0.to_string()
    }

    /// How long after `earlier` this is; zero where a clock that jumped says that it is before.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::try_from(self.0.duration_since(earlier.0)).unwrap_or(Duration::ZERO)
    }

    /// Seconds from `now` until this; negative when it is past.
    pub fn seconds_from(self, now: Self) -> f64 {
        self.0.duration_since(now.0).as_secs_f64()
    }

    /// The point `elapsed` later, at most the end of the calendar.
    #[must_use]
    pub fn after(self, elapsed: Duration) -> Self {
        Self(self.0.saturating_add(signed(elapsed)).unwrap_or(self.0))
    }

    /// The point `elapsed` earlier, at least the start of the calendar.
    #[must_use]
    pub fn before(self, elapsed: Duration) -> Self {
        Self(self.0.saturating_sub(signed(elapsed)).unwrap_or(self.0))
    }
}

impl From<Timestamp> for std::time::SystemTime {
    fn from(at: Timestamp) -> Self {
        at.0.into()
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

fn rfc3339(text: &str) -> Option<jiff::Timestamp> {
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().or_else(|| utc(text.parse().ok()?))
}

fn rfc1123(text: &str) -> Option<jiff::Timestamp> {
    static PARSER: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new().relaxed_weekday(true);
    PARSER.parse_timestamp(text).ok()
}

/// `Sunday, 06-Nov-94 08:49:37 GMT` (RFC 9110, section 5.6.7). The weekday is cut off, since a wrong one must not count.
fn rfc850(text: &str) -> Option<jiff::Timestamp> {
    let (_weekday, rest) = text.split_once(", ")?;
    let rest = rest.strip_suffix(" GMT")?;
    utc(civil::DateTime::strptime("%d-%b-%y %H:%M:%S", rest).ok()?)
}

fn utc(at: civil::DateTime) -> Option<jiff::Timestamp> {
    Offset::UTC.to_timestamp(at).ok()
}

/// A duration as people and flags write it: `250ms`, `1s`, `5m`, `1h30m`, `7d`, as Prometheus reads it.
///
/// # Errors
/// One sentence that says what is wrong.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "{text:?} is no duration: write a number with a unit, such as 250ms, 1s, 5m or 1h30m"
        )
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(
            rest.find(|c: char| !c.is_ascii_digit() && c != '.')
                .ok_or_else(wrong)?,
        );
        let (unit, tail) = tail.split_at(
            tail.find(|c: char| c.is_ascii_digit())
                .unwrap_or(tail.len()),
        );
        let scale = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        let seconds = number.parse::<f64>().map_err(|_| wrong())? * scale;
        let part = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = tail;
    }
    if text.is_empty() {
        Err(wrong())
    } else {
        Ok(total)
    }
}

/// Two units at the most, for people: `6d 23h`, `14m 9s`, `9s`, `0.4s`.
pub fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let pair = |large: u64, large_unit: &str, small: u64, small_unit: &str| {
        if small == 0 {
            format!("{large}{large_unit}")
        } else {
            format!("{large}{large_unit} {small}{small_unit}")
        }
    };
    if days > 0 {
        pair(days, "d", hours, "h")
    } else if hours > 0 {
        pair(hours, "h", minutes, "m")
    } else if minutes > 0 {
        pair(minutes, "m", seconds % 60, "s")
    } else if seconds > 0 || duration.is_zero() {
        format!("{seconds}s")
    } else {
        format!("{:.1}s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<f64> {
        Timestamp::parse(text).map(Timestamp::as_unix_seconds)
    }

    #[test]
    fn every_documented_form_of_not_before_is_read() {
        let expected = Some(1_794_906_942.0);
        for text in [
            "Tue, 17 Nov 2026 09:15:42 GMT",
            "Mon, 17 Nov 2026 09:15:42 GMT",
            "Tue, 17 Nov 2026 10:15:42 +0100",
            "17 Nov 2026 09:15:42 GMT",
            "2026-11-17T09:15:42Z",
            "2026-11-17T10:15:42+01:00",
            "2026-11-17T09:15:42",
            "2026-11-17 09:15:42Z",
            "Tuesday, 17-Nov-26 09:15:42 GMT",
            "Sunday, 17-Nov-26 09:15:42 GMT",
            " Tue, 17 Nov 2026 09:15:42 GMT\n",
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!(
            seconds("Sun, 1 Nov 2026 09:15:42 GMT"),
            Some(1_793_524_542.0)
        );
        assert_eq!(seconds("2026-11-17T09:15:42.5Z"), Some(1_794_906_942.5));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "soon",
            "11/17/2026 9:15:42 AM",
            "2026-13-41T00:00:00Z",
            "Tue, 99 Nov 2026 09:15:42 GMT",
            "1",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn written_forms_read_back() {
        let at = Timestamp::from_unix_seconds(1_794_906_942).unwrap();
        assert_eq!(at.rfc1123(), "Tue, 17 Nov 2026 09:15:42 GMT");
        assert_eq!(at.rfc3339(), "2026-11-17T09:15:42Z");
        assert_eq!(at.rfc3339_millis(), "2026-11-17T09:15:42.000Z");
        assert_eq!(Timestamp::parse(&at.rfc1123()), Some(at));
        assert_eq!(Timestamp::parse(&at.rfc3339()), Some(at));
    }

    #[test]
    fn differences_never_go_negative_and_additions_never_overflow() {
        let early = Timestamp::from_unix_seconds(100).unwrap();
        let late = Timestamp::from_unix_seconds(160).unwrap();
        assert_eq!(late.saturating_since(early), Duration::from_mins(1));
        assert_eq!(early.saturating_since(late), Duration::ZERO);
        assert!(late.after(Duration::MAX) > late);
        assert!(late.before(Duration::MAX) < early);
    }

    #[test]
    fn durations_are_read_as_prometheus_reads_them() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in [
            "",
            "5",
            "s",
            "-1s",
            "1 s",
            "1w2",
            "1e9d",
            "999999999999999999999d",
            "1..2s",
        ] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_have_two_units_at_most() {
        let words = |seconds| in_words(Duration::from_secs(seconds));
        assert_eq!(words(0), "0s");
        assert_eq!(words(9), "9s");
        assert_eq!(words(849), "14m 9s");
        assert_eq!(words(900), "15m");
        assert_eq!(words(604_799), "6d 23h");
        assert_eq!(in_words(Duration::from_millis(400)), "0.4s");
    }
}
