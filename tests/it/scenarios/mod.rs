//! Golden tests of timelines. Each `tests/scenarios/NAME.txt` lists what happens to the VM `web_0` from 2026-11-17
//! 09:00 UTC on; `NAME.golden` lists for each step the transitions, and which samples are new (`+`), changed (`~`) or
//! gone (`-`).
//! `tests/scenarios/README.md` documents the format of a line.

/// All outputs agree.
mod agreement;
/// The alerts of a timeline.
mod alerts;
/// The approvals of a timeline with a policy.
mod approvals;
/// What a timeline sends.
mod telemetry;
/// What the lines of a timeline mean.
pub(crate) mod timeline;
/// The JSON and the page of a timeline.
mod web;
/// The engine, driven by a timeline.
mod world;

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf, time::Duration};

use azure_scheduled_events_exporter::{approval::ApprovalPolicy, document};

use self::{
    timeline::{Step, Stimulus},
    world::{View, World},
};
use crate::support::golden::difference;

/// The timelines, in the order of their names.
fn timelines() -> Vec<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios"));
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 20, "timelines are missing");
    files
}

#[test]
fn timelines_give_their_goldens() {
    let compare = |path: &PathBuf| {
        let timelines = timeline::read(path).into_iter();
        let report: String = timelines
            .map(|(title, steps)| title + &play(&steps))
            .collect();
        difference(&path.with_extension("golden"), &report)
    };
    let differences: Vec<_> = timelines().iter().filter_map(compare).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Describes what the steps cause.
fn play(steps: &[Step]) -> String {
    let mut policy = ApprovalPolicy::default();
    let mut interval = Duration::from_secs(1);
    let mut is_named = true;
    let mut view = View::Samples;
    for step in steps {
        match step.stimulus {
            Stimulus::Policy(it) => (policy, view) = (it, View::Approvals),
            Stimulus::View(it) => view = it,
            Stimulus::Interval(it) => interval = it,
            Stimulus::Nameless => is_named = false,
            _ => {}
        }
    }
    let mut world = World::new(is_named, interval, policy, view);
    steps.iter().map(|step| world.perform(step)).collect()
}

/// What is not as it was at the last description, by its name.
fn describe_changes(
    now: BTreeMap<String, String>,
    last: &mut BTreeMap<String, String>,
    indent: &str,
    report: &mut String,
) {
    for name in last.keys().filter(|name| !now.contains_key(*name)) {
        writeln!(report, "{indent}{name}: gone").unwrap();
    }
    for (name, text) in now.iter().filter(|it| last.get(it.0) != Some(it.1)) {
        writeln!(report, "{indent}{name}: {text}").unwrap();
    }
    *last = now;
}

/// Each document, and its end.
#[test]
fn outputs_agree_about_every_document() {
    for (path, body) in crate::documents::all() {
        if document::parse(&body).is_err() {
            continue;
        }
        let mut world = World::new(
            true,
            Duration::from_secs(1),
            ApprovalPolicy::default(),
            View::Samples,
        );
        let name = path.file_stem().unwrap().to_string_lossy();
        for (second, body) in [
            (1, body),
            (2, br#"{"DocumentIncarnation":1,"Events":[]}"#.to_vec()),
        ] {
            world.perform(&Step {
                line: format!("{name}, second {second}"),
                at: Duration::from_secs(second),
                stimulus: Stimulus::Document(body),
            });
        }
    }
}

#[test]
fn every_golden_has_its_timeline() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios"));
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_readme = path.ends_with("README.md");
        assert!(is_readme || path.with_extension("txt").exists(), "{path:?}");
    }
}
