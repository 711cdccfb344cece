//! Every parser of untrusted or stored bytes, on damaged examples: the short form of the fuzz targets in `fuzz/`.

use std::{fs, path::Path};

use crate::{malformed::damaged, tidy::root};

#[path = "../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "the fuzz targets are crates of their own")]
mod properties;

const CASES: u64 = 2_000;
const DOCUMENTS: &str = "tests/documents";

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_page = path.extension().is_some_and(|kind| kind == "md");
        if path.is_file() && !is_page {
            files.push(fs::read(path).unwrap());
        }
    }
    files.sort();
    files
}

/// Runs the property on the seeds, which are all read except some documents, and on damaged copies of them.
fn holds(property: fn(&[u8]) -> bool, folder: &str) {
    let seeds = files(&root().join(folder));
    let read = seeds.iter().filter(|seed| property(seed)).count();
    assert!(read > 0 && (read == seeds.len() || folder == DOCUMENTS));
    for number in 0..CASES {
        property(&damaged(number, &seeds));
    }
}

#[test]
fn no_document_panics_or_loses_an_event_silently() {
    holds(properties::document, DOCUMENTS);
}

#[test]
fn any_state_file_that_is_read_can_be_written_scraped_and_read_again() {
    holds(properties::state, "fuzz/seeds/state");
}

#[test]
fn any_journal_that_is_read_can_be_written_and_read_again() {
    holds(properties::journal, "fuzz/seeds/journal");
}

#[test]
fn any_otlp_environment_is_accepted_or_rejected_in_one_line() {
    holds(properties::environment, "fuzz/seeds/environment");
}

#[test]
fn any_web_configuration_is_accepted_or_refused_in_one_line() {
    holds(properties::web_config, "fuzz/seeds/web_config");
}

#[test]
fn any_scenario_file_is_accepted_or_rejected_in_one_line() {
    holds(properties::scenario, "src/simulator/scenarios");
}
