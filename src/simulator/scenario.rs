//! Scenarios: what happens to the simulated VM, and when. Data, checked once; nothing here knows a clock.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{catalog, file};

/// A file that is larger than this is no scenario.
const LARGEST_FILE: u64 = 1024 * 1024;

/// A course of maintenance events and faults, in the order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// Its name: the built-in one, or that of its file without the ending.
    pub name: Box<str>,
    /// One line for people.
    pub description: Box<str>,
    /// After so long it begins anew.
    pub repeat_every: Option<Duration>,
    /// The events.
    pub events: Vec<Planned>,
    /// Stretches of time in which the service misbehaves.
    pub faults: Vec<PlannedFault>,
    /// Points at which `DocumentIncarnation` begins at 1 again.
    pub resets: Vec<Duration>,
}

/// One event that will be announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// When it is announced, after the scenario's start.
    pub at: Duration,
    /// `EventType`.
    pub event_type: Box<str>,
    /// `EventSource`.
    pub event_source: Box<str>,
    /// `Description`.
    pub description: Box<str>,
    /// `DurationInSeconds`; -1 is unknown. Never shortened by the speed.
    pub duration_seconds: i64,
    /// `Resources`.
    pub resources: Vec<Resource>,
    /// From the announcement to `NotBefore`; `None` is an event that is first seen as Started.
    pub notice: Option<Duration>,
    /// For how long it is Started.
    pub started_for: Duration,
    /// It vanishes after so long, without having started.
    pub canceled_after: Option<Duration>,
}

/// Whom an event names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// The simulated VM, or the one that many instances after it: `{vm}`, `{vm+1}`.
    Instance(u32),
    /// A name, verbatim.
    Name(Box<str>),
}

/// A stretch of time in which the service misbehaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    /// When it begins, after the scenario's start.
    pub at: Duration,
    /// For how long.
    pub lasts: Duration,
    /// What is wrong.
    pub fault: Fault,
}

/// How the service misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// 410, as while the service is being updated.
    Gone,
    /// 429, with Retry-After in seconds where there is one.
    Throttled(Option<u64>),
    /// 500.
    ServerError,
    /// No answer at all.
    Hang,
    /// The connection is closed in place of an answer.
    Reset,
    /// 200 with a body that is no document.
    Garbage,
    /// 200 with a body without a byte.
    EmptyBody,
    /// No answer to a request for the events until the fault is over.
    Slow,
    /// 429 for more than five requests within a second.
    RateLimit,
}

impl Fault {
    /// Its name in scenario files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Throttled(_) => "throttled",
            Self::ServerError => "server-error",
            Self::Hang => "hang",
            Self::Reset => "reset",
            Self::Garbage => "garbage",
            Self::EmptyBody => "empty-body",
            Self::Slow => "slow",
            Self::RateLimit => "rate-limit",
        }
    }
}

/// Why there is no such scenario: one line that says where and what.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// No built-in scenario has the name.
    #[error("no scenario is called {name:?}: use one of {known}, or the path of a scenario file")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The file cannot be read.
    #[error("scenario file {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// It is no scenario.
    #[error("scenario {origin}: {why}")]
    Invalid {
        /// The file or the name.
        origin: String,
        /// Where, and what is wrong.
        why: String,
    },
}

impl Scenario {
    /// A built-in scenario.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        let text = catalog::text(name).ok_or_else(|| ScenarioError::Unknown {
            name: name.to_owned(),
            known: catalog::names().collect::<Vec<_>>().join(", "),
        })?;
        Self::parse(name, name, text.as_bytes())
    }

    /// A scenario from a file of its own.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let unreadable = |cause| ScenarioError::Unreadable {
            path: path.to_owned(),
            cause,
        };
        // Not by its length: a device has none, and no end.
        let mut text = Vec::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(LARGEST_FILE + 1)
            .read_to_end(&mut text)
            .map_err(unreadable)?;
        if text.len() as u64 > LARGEST_FILE {
            let why =
                format!("it is too large for a scenario: at most {LARGEST_FILE} bytes are read");
            return Err(unreadable(io::Error::other(why)));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &format!("file {}", path.display()), &text)
    }

    /// A scenario from its text; `origin` says in an error where the text is from.
    pub fn parse(name: &str, origin: &str, text: &[u8]) -> Result<Self, ScenarioError> {
        let invalid = |why| ScenarioError::Invalid {
            origin: origin.to_owned(),
            why,
        };
        // Editors on Windows begin a file with a byte order mark.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        file::read(name, text).map_err(invalid)
    }

    /// When its last announcement or reset is due, or its last fault over.
    pub(super) fn length(&self) -> Duration {
        let announced = self.events.iter().map(|event| event.at);
        let recovered = self
            .faults
            .iter()
            .map(|fault| fault.at.saturating_add(fault.lasts));
        announced
            .chain(recovered)
            .chain(self.resets.iter().copied())
            .max()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text, place, what is said.
    const WRONG: [(&str, &str, &str); 21] = [
        (
            "{\n \"events\": [{\"event_type\": \"Freeze\", \"notise\": \"1m\"}]}",
            "line 2",
            "unknown field `notise`",
        ),
        (
            "{\"events\": [{\"event_type\": \"Freeze\", \"notice\": \"1 minute\"}]}",
            "line 1",
            "\"1 minute\" is no duration",
        ),
        (
            "{\"events\": [{\"event_type\": \"Freeze\", \"duration_seconds\": -2}]}",
            "events[0].duration_seconds",
            "-1",
        ),
        (
            "{\"events\": [{\"event_type\": \"\"}]}",
            "events[0].event_type",
            "empty",
        ),
        (
            "{\"events\": [{\"event_type\": \"Freeze\", \"resources\": []}]}",
            "events[0].resources",
            "empty",
        ),
        (
            "{\"events\": [{\"event_type\": \"Freeze\", \"resources\": [\"{vmm}\"]}]}",
            "events[0].resources",
            "{vm+1}",
        ),
        (
            "{\"events\": [{\"event_type\": \"Freeze\", \"notice\": \"1m\", \"canceled_after\": \"2m\"}]}",
            "events[0].canceled_after",
            "notice",
        ),
        (
            "{\"events\": [{\"event_type\": \"Freeze\", \"canceled_after\": \"2m\"}]}",
            "events[0].canceled_after",
            "notice",
        ),
        (
            "{\"faults\": [{\"fault\": \"gone\"}]}",
            "faults[0].for",
            "missing",
        ),
        (
            "{\"faults\": [{\"fault\": \"gone\", \"for\": \"0s\"}]}",
            "faults[0].for",
            "longer",
        ),
        (
            "{\"faults\": [{\"fault\": \"gone\", \"for\": \"1s\", \"retry_after\": \"1s\"}]}",
            "faults[0].retry_after",
            "throttled",
        ),
        (
            "{\"faults\": [{\"fault\": \"incarnation-reset\", \"for\": \"1s\"}]}",
            "faults[0].for",
            "point",
        ),
        (
            "{\"faults\": [{\"fault\": \"gon\", \"for\": \"1s\"}]}",
            "line 1",
            "unknown variant `gon`",
        ),
        (
            "{\"play\": [{\"scenario\": \"nothing\"}]}",
            "play[0].scenario",
            "\"nothing\"",
        ),
        (
            "{\"play\": [{\"scenario\": \"demo\"}]}",
            "play[0].scenario",
            "playlist",
        ),
        (
            "{\"play\": [{\"scenario\": \"live-migration\", \"stretch\": 0}]}",
            "play[0].stretch",
            "0.01",
        ),
        (
            "{\"repeat_every\": \"1s\", \"events\": [{\"at\": \"2s\", \"event_type\": \"Freeze\"}]}",
            "repeat_every",
            "2s",
        ),
        (
            "{\"events\": [{\"event_type\": \"Freeze\", \"at\": \"1000d\"}]}",
            "line 1",
            "366 days",
        ),
        ("{}", "nothing happens", "events"),
        ("[]", "a list", "object"),
        ("", "line 1", "EOF"),
    ];

    fn refusal(text: &str) -> String {
        let error = Scenario::parse("x", "file x.json", text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(!error.contains('\n'), "{error:?}");
        error
    }

    #[test]
    fn every_built_in_scenario_is_valid_and_described() {
        for name in catalog::names() {
            let scenario = Scenario::named(name).unwrap();
            assert!(!scenario.description.is_empty(), "{name}");
            assert_eq!(&*scenario.name, name);
        }
    }

    #[test]
    fn unknown_name_is_refused_with_those_that_there_are() {
        let error = Scenario::named("live_migration").unwrap_err().to_string();
        assert!(
            error.contains("\"live_migration\"") && error.contains("live-migration, "),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, place, what) in WRONG {
            let error = refusal(text);
            assert!(error.starts_with("scenario file x.json: "), "{error}");
            assert!(
                error.contains(place) && error.contains(what),
                "{text}\n{error}"
            );
        }
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let scenario = Scenario::parse(
            "x",
            "x",
            b"\xef\xbb\xbf{\"events\": [{\"event_type\": \"Hibernate\"}]}",
        )
        .unwrap();
        let event = &scenario.events[0];
        assert_eq!(event.at, Duration::ZERO);
        assert_eq!(&*event.event_source, "Platform");
        assert_eq!(&*event.description, "");
        assert_eq!(event.duration_seconds, -1);
        assert_eq!(event.resources, [Resource::Instance(0)]);
        assert_eq!(event.notice, None);
        assert_eq!(event.started_for, Duration::from_mins(10));
    }

    #[test]
    fn missing_file_is_named() {
        let error = Scenario::load(Path::new("no/such.json"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("scenario file no/such.json: "), "{error}");
    }

    #[test]
    fn file_without_an_end_is_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.json");
        let file = fs::File::create(&path).unwrap();
        file.set_len(LARGEST_FILE + 1).unwrap();
        for path in [path.as_path(), Path::new("/dev/zero")] {
            if path.exists() {
                let error = Scenario::load(path).unwrap_err().to_string();
                assert!(error.contains("too large"), "{error}");
            }
        }
    }

    #[test]
    fn playlist_shifts_and_stretches_what_it_plays() {
        let text = br#"{"play": [{"at": "1h", "scenario": "spot-preempt", "stretch": 20}]}"#;
        let playlist = Scenario::parse("x", "x", text).unwrap();
        assert_eq!(playlist.events[0].at, Duration::from_hours(1));
        assert_eq!(playlist.events[0].notice, Some(Duration::from_mins(10)));
    }
}
