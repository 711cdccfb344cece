//! Timelines in, goldens out. Each `tests/scenarios/NAME.txt` is the life of a VM called `web_0` as the exporter sees it
//! from 2026-11-17 09:00 UTC on; `NAME.golden` is what it makes of each step: what happened, and which samples are new
//! (`+`), changed (`~`) or gone (`-`). `tests/scenarios/README.md` has the form of a line.

/// What the lines of a timeline mean.
mod timeline;
/// The exporter's core, without its I/O.
mod world;

use std::{fs, path::PathBuf};

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
fn lives_go_as_their_goldens_say() {
    let play = |path: &PathBuf| {
        let steps = timeline::read(path);
        let mut world = world::World::new();
        let told: String = steps.iter().map(|step| world.take(step)).collect();
        difference(&path.with_extension("golden"), &told)
    };
    let differences: Vec<_> = timelines().iter().filter_map(play).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn every_golden_of_a_life_has_its_timeline() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios"));
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_explanation = path.ends_with("README.md");
        assert!(
            is_explanation || path.with_extension("txt").exists(),
            "{path:?}"
        );
    }
}
