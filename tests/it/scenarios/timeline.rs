//! Parses a timeline; the format is documented in `tests/scenarios/README.md`.

use std::{fs, path::Path, time::Duration};

use azure_scheduled_events_exporter::{
    FailureReason, Identity, RequestError,
    approval::ApprovalPolicy,
    event::EventId,
    time::{Timestamp, parse_duration},
};
use serde_json::{Map, Value, json};

use super::world::View;
use crate::support::simulated_vm::{error, refusal, timeout};

/// One line of a timeline, with the events of its document.
#[derive(Debug)]
pub(super) struct Step {
    /// As written.
    pub(super) line: String,
    /// Since the beginning.
    pub(super) at: Duration,
    pub(super) stimulus: Stimulus,
}

#[derive(Debug)]
pub(super) enum Stimulus {
    Document(Vec<u8>),
    Failed(FailureReason),
    Unchanged,
    /// IMDS accepts the approval of this event.
    Approved(EventId),
    /// The request of an approval ends.
    Answered(Result<(), RequestError>),
    /// The policy is that of the whole timeline.
    Policy(ApprovalPolicy),
    /// What the whole timeline compares.
    View(View),
    /// The poll interval is that of the whole timeline.
    Interval(Duration),
    Nameless,
    /// The answer of instance metadata.
    Named(Result<Box<Identity>, RequestError>),
    Frozen {
        length: Duration,
        is_monotonic_stopped: bool,
    },
    Clock {
        by: Duration,
        is_forward: bool,
    },
    Stops,
    Killed,
    Starts {
        rebooted: bool,
    },
    /// The disk is copied to the VM with this name.
    StartsAs(String),
    /// The physical host of the VM, as it is read from now on; `None` if it cannot be read.
    Host(Option<String>),
    Look,
}

/// 2026-11-17 09:00 UTC.
pub(super) fn start() -> Timestamp {
    Timestamp::from_unix_seconds(1_794_906_000).unwrap()
}

/// The timelines of a file: the lines after each `=` are one of their own.
pub(super) fn read(path: &Path) -> Vec<(String, Vec<Step>)> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap().trim_end());
    let mut timelines = vec![(String::new(), Vec::new())];
    for line in lines.filter(|line| !line.is_empty()) {
        let (_, steps): &mut (String, Vec<(String, Vec<String>)>) = timelines.last_mut().unwrap();
        if line.starts_with('=') {
            timelines.push((format!("{line}\n"), Vec::new()));
        } else if line.ends_with(" again") {
            let mut documents = steps
                .iter()
                .rev()
                .filter(|(line, _)| line.contains(" document ") || line.ends_with(" again"));
            let (_, entries) = documents.next().expect("a document is before it");
            steps.push((line.to_owned(), entries.clone()));
        } else if line.starts_with('@') {
            steps.push((line.to_owned(), Vec::new()));
        } else {
            assert!(
                line.starts_with(' '),
                "{path:?}: a line begins with @ or = or is indented: {line}"
            );
            let (_, entries) = steps
                .last_mut()
                .expect("an entry needs a document line before it");
            entries.push(line.trim().to_owned());
        }
    }
    let timelines = timelines.into_iter().filter(|(_, steps)| !steps.is_empty());
    timelines
        .map(|(title, steps)| (title, steps.into_iter().map(|it| step(path, it)).collect()))
        .collect()
}

fn step(path: &Path, (line, entries): (String, Vec<String>)) -> Step {
    let mut words = line.split_whitespace();
    let at = parse_duration(words.next().unwrap().trim_start_matches('@')).unwrap();
    let words: Vec<_> = words.collect();
    let stimulus = stimulus(&words, &entries)
        .unwrap_or_else(|| panic!("{path:?}: unknown instruction: {line}"));
    Step { line, at, stimulus }
}

fn stimulus(words: &[&str], entries: &[String]) -> Option<Stimulus> {
    if !entries.is_empty() && !matches!(words[0], "document" | "again") {
        return None;
    }
    Some(match *words {
        ["again"] => Stimulus::Document(document(&json!(1), entries)),
        ["document", incarnation] => {
            Stimulus::Document(document(&incarnation.parse().ok()?, entries))
        }
        ["file", name] => {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
            Stimulus::Document(fs::read(folder.join(format!("{name}.json"))).ok()?)
        }
        ["failed", reason] => Stimulus::Failed(
            FailureReason::ALL
                .into_iter()
                .find(|known| known.as_str() == reason)?,
        ),
        ["unchanged"] => Stimulus::Unchanged,
        ["approved", letter] => Stimulus::Approved(EventId::new(&id(letter))),
        ["policy", ref words @ ..] => Stimulus::Policy(policy(words)?),
        ["interval", length] => Stimulus::Interval(parse_duration(length).ok()?),
        ["nameless"] => Stimulus::Nameless,
        ["named", name] => named(name, "", None),
        ["named", name, id] => named(name, id, None),
        ["owner", owner] => named("web_0", "", Some(owner)),
        ["unnamed"] => Stimulus::Named(Err(timeout())),
        ["frozen", length, ref rest @ ..] => Stimulus::Frozen {
            length: parse_duration(length).ok()?,
            is_monotonic_stopped: match *rest {
                [] => false,
                ["stopped"] => true,
                _ => return None,
            },
        },
        ["clock", by] => Stimulus::Clock {
            by: parse_duration(by.trim_start_matches(['+', '-'])).ok()?,
            is_forward: match by.chars().next()? {
                '+' => true,
                '-' => false,
                _ => return None,
            },
        },
        ["stops"] => Stimulus::Stops,
        ["killed"] => Stimulus::Killed,
        ["starts"] => Stimulus::Starts { rebooted: false },
        ["starts", name] => Stimulus::StartsAs(name.to_owned()),
        ["boots"] => Stimulus::Starts { rebooted: true },
        ["host"] => Stimulus::Host(None),
        ["host", name] => Stimulus::Host(Some(name.to_owned())),
        ["look"] => Stimulus::Look,
        [word] => match answer(word) {
            Some(result) => Stimulus::Answered(result),
            None => Stimulus::View(view(word)?),
        },
        _ => return None,
    })
}

/// How the request of an approval ends.
fn answer(word: &str) -> Option<Result<(), RequestError>> {
    Some(match word {
        "accepted" => Ok(()),
        "refused" => Err(refusal()),
        "error" => Err(error()),
        "unanswered" => Err(timeout()),
        "unsent" => Err(RequestError {
            is_unsent: true,
            ..timeout()
        }),
        _ => return None,
    })
}

fn view(word: &str) -> Option<View> {
    Some(match word {
        "alerts" => View::Alerts,
        "json" => View::Json,
        "page" => View::Page,
        "pushes" => View::Pushes,
        "telemetry" => View::Telemetry,
        "words" => View::Words,
        _ => return None,
    })
}

/// The values of the `--approve` flags.
fn policy(words: &[&str]) -> Option<ApprovalPolicy> {
    let mut policy = ApprovalPolicy::default();
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("user-events", "") => policy.user_events = true,
            ("for", "group") => policy.for_group = true,
            ("dry-run", "") => policy.dry_run = true,
            ("freeze-below", length) => policy.freeze_below = Some(parse_duration(length).ok()?),
            ("delay", length) => policy.delay = parse_duration(length).ok()?,
            ("drain", length) => policy.drain = parse_duration(length).ok()?,
            _ => return None,
        }
    }
    Some(policy)
}

/// A document as Azure writes it.
pub(crate) fn document(incarnation: &Value, entries: &[String]) -> Vec<u8> {
    let event = |entry: &String| {
        if entry.starts_with('{') {
            serde_json::from_str(entry).unwrap()
        } else {
            event(entry)
        }
    };
    let events: Vec<Value> = entries.iter().map(event).collect();
    json!({ "DocumentIncarnation": incarnation, "Events": events })
        .to_string()
        .into_bytes()
}

pub(crate) fn id(letter: &str) -> String {
    let letters = letter.to_uppercase().repeat(8);
    format!("{letters}-52DA-4F6E-9C38-A40D7E91B265")
}

fn event(entry: &str) -> Value {
    let mut words = entry.split_whitespace();
    let mut next = || {
        words
            .next()
            .unwrap_or_else(|| panic!("an event has an id, a type and a status: {entry}"))
    };
    let (letter, event_type, status) = (next(), next(), next());
    let is_lower = letter.chars().all(char::is_lowercase);
    let id = id(letter);
    let mut members = Map::new();
    let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
    put(
        "EventId",
        if is_lower { id.to_lowercase() } else { id }.into(),
    );
    put("EventType", event_type.into());
    put("EventStatus", status.into());
    put("ResourceType", "VirtualMachine".into());
    put("Resources", json!(["web_0"]));
    put("NotBefore", "".into());
    put("EventSource", "Platform".into());
    put(
        "Description",
        "Host server is undergoing maintenance.".into(),
    );
    put("DurationInSeconds", (-1).into());
    for word in words {
        let (name, value) = word.split_once('=').expect("a member is name=value");
        match name {
            "due" => put(
                "NotBefore",
                start()
                    .after(parse_duration(value).unwrap())
                    .rfc1123()
                    .into(),
            ),
            "duration" => put("DurationInSeconds", value.parse::<i64>().unwrap().into()),
            "of" => put("Resources", value.split(',').collect()),
            "source" => put("EventSource", value.into()),
            "about" => put("Description", value.replace('_', " ").into()),
            _ => panic!("an event has no {name}: {entry}"),
        };
    }
    members.into()
}

fn named(name: &str, vm_id: &str, owner: Option<&str>) -> Stimulus {
    Stimulus::Named(Ok(Box::new(Identity {
        name: name.to_owned(),
        vm_id: vm_id.to_owned(),
        owner: owner.map(|owner| owner.trim_matches('-').to_owned()),
        ..Identity::default()
    })))
}
