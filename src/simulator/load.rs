//! Loads scenarios: built-in ones by name, others from a file or from text.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use super::{builtin, file, scenario::Scenario};
use crate::text::excerpt;

/// In characters.
const MAX_PROBLEM: usize = 500;
/// In bytes.
const MAX_FILE_SIZE: u64 = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("unknown scenario {name:?}: use one of {known}, or the path of a scenario file")]
    Unknown { name: String, known: String },
    #[error("scenario file {}: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("scenario {origin}: {problem}")]
    Invalid {
        /// The file or the name.
        origin: String,
        /// The place in the text, and the problem.
        problem: String,
    },
}

impl Scenario {
    /// Returns a built-in scenario.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        let text = builtin::text(name).ok_or_else(|| ScenarioError::Unknown {
            name: name.to_owned(),
            known: builtin::names().collect::<Vec<_>>().join(", "),
        })?;
        Self::parse(name, name, text.as_bytes())
    }

    /// Loads a scenario file.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let unreadable = |cause| ScenarioError::Unreadable {
            path: path.to_owned(),
            cause,
        };
        // The size in the metadata does not limit the read: a device such as /dev/zero reports none.
        let mut text = Vec::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_FILE_SIZE + 1)
            .read_to_end(&mut text)
            .map_err(unreadable)?;
        if text.len() as u64 > MAX_FILE_SIZE {
            let problem = format!("the file is too large: the limit is {MAX_FILE_SIZE} bytes");
            return Err(unreadable(io::Error::other(problem)));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &format!("file {}", path.display()), &text)
    }

    /// Parses the text of a scenario file. Errors name `origin` as the source of the text.
    pub fn parse(name: &str, origin: &str, text: &[u8]) -> Result<Self, ScenarioError> {
        // Some Windows editors write a byte order mark.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        file::parse(name, text).map_err(|problem| ScenarioError::Invalid {
            origin: origin.to_owned(),
            // It may quote a member name with control characters.
            problem: excerpt(&problem, MAX_PROBLEM),
        })
    }
}

/// Name and description of each built-in scenario.
pub fn catalog() -> impl Iterator<Item = (&'static str, Box<str>)> {
    builtin::names().filter_map(|name| Some((name, Scenario::named(name).ok()?.description)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::simulator::scenario::Resource;

    /// Text, place, problem.
    const INVALID: [(&str, &str, &str); 25] = [
        (
            "{\n \"events\": [{\"event_type\": \"Freeze\", \"notise\": \"1m\"}]}",
            "line 2",
            "unknown field `notise`",
        ),
        (
            "{\"events\": [{\"event_type\": \"Freeze\", \"notice\": \"1 minute\"}]}",
            "line 1",
            "\"1 minute\" is not a duration",
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
            "line 1",
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
            "{\"events\": [{\"event_type\": \"Freeze\", \"starts_after_approval\": \"2m\"}]}",
            "events[0].starts_after_approval",
            "notice",
        ),
        (
            "{\"events\": [{\"event_type\": \"Freeze\", \"advisory_for\": \"2m\", \"started_for\": \"2m\"}]}",
            "events[0].advisory_for",
            "never starts",
        ),
        (
            "{\"faults\": [{\"fault\": \"metadata-proxy\", \"for\": \"1s\", \"status\": 404}]}",
            "line 1",
            "403, 421, 502 or 503",
        ),
        (
            "{\"faults\": [{\"fault\": \"gone\", \"for\": \"1s\", \"status\": 403}]}",
            "faults[0].status",
            "metadata-proxy",
        ),
        (
            "{\"faults\": [{\"fault\": \"gone\"}]}",
            "faults[0].for",
            "missing",
        ),
        (
            "{\"faults\": [{\"fault\": \"gone\", \"for\": \"0s\"}]}",
            "faults[0].for",
            "zero",
        ),
        (
            "{\"faults\": [{\"fault\": \"gone\", \"for\": \"1s\", \"retry_after\": \"1s\"}]}",
            "faults[0].retry_after",
            "throttled",
        ),
        (
            "{\"faults\": [{\"fault\": \"incarnation-reset\", \"for\": \"1s\"}]}",
            "faults[0].for",
            "no duration",
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
        ("{}", "has no events", "faults"),
        ("[]", "JSON array", "object"),
        ("", "line 1", "EOF"),
    ];

    fn parse_error(text: &str) -> String {
        let error = Scenario::parse("x", "file x.json", text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(!error.contains('\n'), "{error:?}");
        error
    }

    #[test]
    fn every_built_in_scenario_is_valid_and_described() {
        for name in builtin::names() {
            let scenario = Scenario::named(name).unwrap();
            assert!(!scenario.description.is_empty(), "{name}");
            assert_eq!(&*scenario.name, name);
        }
    }

    #[test]
    fn unknown_name_is_refused_with_the_known_names() {
        let error = Scenario::named("live_migration").unwrap_err().to_string();
        assert!(
            error.contains("\"live_migration\"") && error.contains("live-migration, "),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_place_and_the_problem() {
        for (text, place, what) in INVALID {
            let error = parse_error(text);
            assert!(error.starts_with("scenario file x.json: "), "{error}");
            assert!(
                error.contains(place) && error.contains(what),
                "{text}\n{error}"
            );
        }
    }

    #[test]
    fn error_that_quotes_control_characters_is_one_line() {
        let error = parse_error("{\"eve\\nnts\u{9b}\": 1}");
        assert!(error.contains("eve nts\u{fffd}"), "{error}");
    }

    #[test]
    fn missing_members_have_defaults() {
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
        assert_eq!(event.shown_for(), Duration::from_mins(10));
    }

    #[test]
    fn null_is_the_default_of_a_member() {
        let event = br#"{"events": [{"event_type": "Freeze", "event_source": null, "duration_seconds": null,
            "resources": null, "notice": null, "at": null}], "faults": [
            {"fault": "incarnation-reset", "for": null, "status": null, "retry_after": null}]}"#;
        let scenario = Scenario::parse("x", "x", event).unwrap();
        let event = &scenario.events[0];
        assert_eq!(&*event.event_source, "Platform");
        assert_eq!(event.duration_seconds, -1);
        assert_eq!(event.resources, [Resource::Instance(0)]);
        assert_eq!(event.notice, None);
        assert_eq!(scenario.resets, [Duration::ZERO]);
    }

    #[test]
    fn error_for_a_missing_file_names_it() {
        let error = Scenario::load(Path::new("no/such.json"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("scenario file no/such.json: "), "{error}");
    }

    #[test]
    fn endless_file_is_too_large() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large.json");
        let file = fs::File::create(&path).unwrap();
        file.set_len(MAX_FILE_SIZE + 1).unwrap();
        for path in [path.as_path(), Path::new("/dev/zero")] {
            if path.exists() {
                let error = Scenario::load(path).unwrap_err().to_string();
                assert!(error.contains("too large"), "{error}");
            }
        }
    }

    #[test]
    fn playlist_shifts_and_stretches_its_scenarios() {
        let text = br#"{"play": [{"at": "1h", "scenario": "spot-preempt", "stretch": 20}]}"#;
        let playlist = Scenario::parse("x", "x", text).unwrap();
        assert_eq!(playlist.events[0].at, Duration::from_hours(1));
        assert_eq!(playlist.events[0].notice, Some(Duration::from_mins(10)));
    }
}
