//! Timestamps, their text formats, durations, and the only code that reads the system clocks.
//!
//! All other code takes a [`Moment`] as an argument, so tests simulate hours in milliseconds.

mod duration;

use std::{
    ops::{Add, Sub},
    time::Duration,
};

use jiff::{SignedDuration, civil, fmt::rfc2822, tz::Offset};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::duration::parse_duration;
pub(crate) use self::duration::{format_duration, in_words};

/// A point in time, in UTC, with nanosecond precision. In JSON it is RFC 3339 with all digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(jiff::Timestamp);

/// One reading of all clocks.
///
/// The wall clock says when something happened, and may be set at any time. So lengths are measured by the monotonic
/// clock, which nobody sets and which includes the time in which the VM was suspended: on Linux `CLOCK_BOOTTIME`
/// (`clock_gettime(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    pub wall: Timestamp,
    /// Goes on over a restart of the process, see [`Clock::resume`].
    pub monotonic: MonotonicTime,
    /// Without the time in which the VM was suspended: on Linux `CLOCK_MONOTONIC`. Constant origin within one process.
    #[serde(skip)]
    pub awake: MonotonicTime,
}

/// A point of a clock that nobody sets: the time since an arbitrary origin. Sums and differences saturate, as those of
/// [`std::time::Instant`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct MonotonicTime(Duration);

impl MonotonicTime {
    pub const MAX: Self = Self(Duration::MAX);

    pub const fn since_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }
}

impl Add<Duration> for MonotonicTime {
    type Output = Self;

    fn add(self, elapsed: Duration) -> Self {
        Self(self.0.saturating_add(elapsed))
    }
}

impl Sub for MonotonicTime {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Sub<Duration> for MonotonicTime {
    type Output = Self;

    fn sub(self, elapsed: Duration) -> Self {
        Self(self.0.saturating_sub(elapsed))
    }
}

/// True for a date of the calendar as `YYYY-MM-DD`.
pub(crate) fn is_date(text: &str) -> bool {
    let date = text.parse::<civil::Date>();
    date.is_ok_and(|date| date.to_string() == text)
}

#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: std::time::Instant,
    /// The readings of both clocks at the start.
    booted_before: Duration,
    monotonic: MonotonicTime,
}

impl Clock {
    /// The monotonic time begins at the Unix time, so that an earlier moment has one too.
    #[expect(
        clippy::disallowed_methods,
        reason = "only this module reads the clock"
    )]
    pub fn start() -> Self {
        let epoch = Timestamp::now().saturating_since(Timestamp::UNIX_EPOCH);
        let started = std::time::Instant::now();
        Self {
            started,
            booted_before: time_since_boot(started),
            monotonic: MonotonicTime(epoch),
        }
    }

    /// Sets the monotonic clock: it continues that of an earlier process.
    #[must_use]
    pub fn resume(self, now: MonotonicTime) -> Self {
        let elapsed = self.now().monotonic - self.monotonic;
        Self {
            monotonic: now - elapsed,
            ..self
        }
    }

    pub fn now(&self) -> Moment {
        let since_boot = time_since_boot(self.started);
        Moment {
            wall: Timestamp::now(),
            monotonic: self.monotonic + since_boot.saturating_sub(self.booted_before),
            awake: MonotonicTime(self.started.elapsed()),
        }
    }
}

/// By a clock that goes on while the VM is suspended.
#[cfg(target_os = "linux")]
fn time_since_boot(_: std::time::Instant) -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// The performance counter of Windows goes on while the VM is suspended
/// (<https://learn.microsoft.com/windows/win32/sysinfo/acquiring-high-resolution-time-stamps>).
#[cfg(not(target_os = "linux"))]
fn time_since_boot(started: std::time::Instant) -> Duration {
    started.elapsed()
}

impl Moment {
    /// `elapsed` is the time since the origin of the monotonic clock.
    pub const fn new(wall: Timestamp, elapsed: Duration) -> Self {
        Self {
            wall,
            monotonic: MonotonicTime(elapsed),
            awake: MonotonicTime(elapsed),
        }
    }

    #[must_use]
    pub fn after(self, elapsed: Duration) -> Self {
        Self {
            wall: self.wall.after(elapsed),
            monotonic: self.monotonic + elapsed,
            awake: self.awake + elapsed,
        }
    }
}

impl Timestamp {
    pub const UNIX_EPOCH: Self = Self(jiff::Timestamp::UNIX_EPOCH);

    /// Reads the wall clock. Prefer [`Clock::now`], which also reads the monotonic clock.
    #[expect(
        clippy::disallowed_methods,
        reason = "only this module reads the clock"
    )]
    pub fn now() -> Self {
        jiff::Timestamp::try_from(std::time::SystemTime::now()).map_or(Self::UNIX_EPOCH, Self)
    }

    /// `None` outside the years -9999 to 9999.
    pub fn from_unix_seconds(seconds: i64) -> Option<Self> {
        jiff::Timestamp::from_second(seconds).ok().map(Self)
    }

    pub(crate) fn as_unix_nanos(self) -> i128 {
        self.0.as_nanosecond()
    }

    /// Fractional seconds since the epoch, as Prometheus expects them.
    pub fn as_unix_seconds(self) -> f64 {
        self.0.as_duration().as_secs_f64()
    }

    /// Parses the formats found in scheduled-events documents: RFC 1123 with `GMT` or a numeric zone, RFC 3339 (UTC if
    /// the zone is missing), RFC 850 and asctime.
    ///
    /// The weekday is not checked: Microsoft's documentation has examples with a wrong one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        rfc3339(text)
            .or_else(|| rfc1123(text))
            .or_else(|| obsolete_http_date(text))
            .map(Self)
    }

    /// `Tue, 17 Nov 2026 09:15:42 GMT`, the form of `NotBefore` since api-version 2017-08-01 (RFC 9110, section 5.6.7).
    pub fn rfc1123(self) -> String {
        self.format("%a, %d %b %Y %H:%M:%S GMT")
    }

    /// `2026-11-17T09:15:42Z`, to the second.
    pub fn rfc3339(self) -> String {
        self.format("%Y-%m-%dT%H:%M:%SZ")
    }

    /// `2026-11-17T09:15:42.123Z`.
    pub fn rfc3339_millis(self) -> String {
        self.format("%Y-%m-%dT%H:%M:%S.%3fZ")
    }

    /// `09:15 UTC`, rounded up to the minute.
    pub(crate) fn time_of_day(self) -> String {
        let minute = self.after(Duration::from_nanos(59_999_999_999));
        minute.format("%H:%M UTC")
    }

    /// In UTC, by the directives of `strftime(3)`. Smaller units are cut off.
    pub(crate) fn format(self, format: &str) -> String {
        self.0.strftime(format).to_string()
    }

    /// Time since `earlier`; zero if `earlier` is later, as after a clock adjustment.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::try_from(self.0.duration_since(earlier.0)).unwrap_or(Duration::ZERO)
    }

    /// Seconds from `now` until this time; negative if it has passed.
    pub(crate) fn seconds_from(self, now: Self) -> f64 {
        self.0.duration_since(now.0).as_secs_f64()
    }

    /// The value of the monotonic clock when the wall clock shows this time, unless the wall clock is set meanwhile.
    /// Zero for a time before its origin.
    pub(crate) fn on_monotonic_clock(self, now: Moment) -> MonotonicTime {
        let passed = now.wall.saturating_since(self);
        let left = self.saturating_since(now.wall);
        now.monotonic + left - passed
    }

    /// Adds `elapsed`, saturating at the end of the calendar.
    #[must_use]
    pub fn after(self, elapsed: Duration) -> Self {
        Self(self.0.saturating_add(signed(elapsed)).unwrap_or(self.0))
    }

    /// Subtracts `elapsed`, saturating at the start of the calendar.
    #[must_use]
    pub fn before(self, elapsed: Duration) -> Self {
        Self(self.0.saturating_sub(signed(elapsed)).unwrap_or(self.0))
    }
}

/// Nanoseconds.
impl Serialize for MonotonicTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl<'de> Deserialize<'de> for MonotonicTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|nanos| Self(Duration::from_nanos(nanos)))
    }
}

/// 1970 for a time that the operating system cannot represent: Windows has none before 1601.
impl From<Timestamp> for std::time::SystemTime {
    fn from(at: Timestamp) -> Self {
        Self::try_from(at.0).unwrap_or(Self::UNIX_EPOCH)
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

/// The other forms of RFC 9110, section 5.6.7: `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`. The weekday
/// is not checked.
fn obsolete_http_date(text: &str) -> Option<jiff::Timestamp> {
    let (_weekday, rest) = text.split_once(char::is_whitespace)?;
    let mut formats = ["%d-%b-%y %H:%M:%S GMT", "%b %d %H:%M:%S %Y"].into_iter();
    formats.find_map(|format| utc(civil::DateTime::strptime(format, rest.trim_start()).ok()?))
}

fn utc(at: civil::DateTime) -> Option<jiff::Timestamp> {
    Offset::UTC.to_timestamp(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<f64> {
        Timestamp::parse(text).map(Timestamp::as_unix_seconds)
    }

    #[test]
    fn every_documented_format_of_not_before_is_parsed() {
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
            "Tue Nov 17 09:15:42 2026",
            "Mon Nov 17 09:15:42 2026",
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!(
            seconds("Sun, 1 Nov 2026 09:15:42 GMT"),
            Some(1_793_524_542.0)
        );
        for text in ["Sun Nov  1 09:15:42 2026", "Sun Nov 1 09:15:42 2026"] {
            assert_eq!(seconds(text), Some(1_793_524_542.0), "{text}");
        }
        assert_eq!(seconds("2026-11-17T09:15:42.5Z"), Some(1_794_906_942.5));
    }

    #[test]
    fn invalid_timestamps_are_rejected() {
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
    fn a_clock_goes_on_where_that_of_an_earlier_process_was() {
        let clock = Clock::start();
        let hour = Duration::from_hours(1);
        let resumed_at = clock.now().monotonic + hour;
        let resumed = clock.resume(resumed_at);
        let (before, now, after) = (clock.now(), resumed.now(), clock.now());
        assert!(now.monotonic >= resumed_at);
        assert!(now.monotonic - after.monotonic <= hour);
        assert!(before.awake <= now.awake && now.awake <= after.awake);
    }

    #[test]
    fn the_time_of_day_is_rounded_up_to_the_minute() {
        for (text, expected) in [
            ("2026-11-17T09:15:00Z", "09:15 UTC"),
            ("2026-11-17T09:15:00.5Z", "09:16 UTC"),
            ("2026-11-17T09:15:00.000000001Z", "09:16 UTC"),
            ("2026-11-17T09:15:59.9Z", "09:16 UTC"),
            ("2026-11-17T23:59:01Z", "00:00 UTC"),
        ] {
            let at = Timestamp::parse(text).unwrap();
            assert_eq!(at.time_of_day(), expected, "{text}");
        }
    }

    #[test]
    fn formatted_timestamps_parse_back() {
        let at = Timestamp::from_unix_seconds(1_794_906_942).unwrap();
        assert_eq!(at.rfc1123(), "Tue, 17 Nov 2026 09:15:42 GMT");
        assert_eq!(at.rfc3339(), "2026-11-17T09:15:42Z");
        assert_eq!(at.rfc3339_millis(), "2026-11-17T09:15:42.000Z");
        assert_eq!(Timestamp::parse(&at.rfc1123()), Some(at));
        assert_eq!(Timestamp::parse(&at.rfc3339()), Some(at));
    }

    #[test]
    fn differences_are_never_negative_and_additions_never_overflow() {
        let early = Timestamp::from_unix_seconds(100).unwrap();
        let late = Timestamp::from_unix_seconds(160).unwrap();
        assert_eq!(late.saturating_since(early), Duration::from_mins(1));
        assert_eq!(early.saturating_since(late), Duration::ZERO);
        assert!(late.after(Duration::MAX) > late);
        assert!(late.before(Duration::MAX) < early);
    }
}
