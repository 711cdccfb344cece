//! Checks the examples and tables of `docs/simulator.md` and of the page on scenario files.

use std::{collections::BTreeSet, fs, path::Path};

use azure_scheduled_events_exporter::simulator::{Scenario, catalog};

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap()
}

fn page() -> String {
    read("src/simulator/scenarios/README.md")
}

#[test]
fn example_scenario_file_is_valid() {
    let page = page();
    let (_, rest) = page.split_once("```json\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let scenario = Scenario::parse("game-day", "example", example.as_bytes()).unwrap();
    assert_eq!((scenario.events.len(), scenario.faults.len()), (1, 1));
}

#[test]
fn every_scenario_that_the_table_names_is_built_in() {
    let page = read("docs/simulator.md");
    let known: BTreeSet<_> = catalog().map(|(name, _)| name).collect();
    let named = first_cells(&page, "scenario");
    assert!(named.len() > 10 && named.is_subset(&known), "{named:?}");
}

fn in_code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What the rows of the table with this heading begin with.
fn first_cells<'a>(page: &'a str, heading: &str) -> BTreeSet<&'a str> {
    let (_, table) = page.split_once(&format!("\n| {heading} | ")).unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with("| "));
    rows.filter_map(|row| row.split(" | ").next())
        .flat_map(in_code)
        .collect()
}

#[test]
fn every_member_of_a_scenario_file_is_documented() {
    let page = page();
    for (heading, text) in [
        ("member of the file", r#"{"x": 1}"#),
        ("member of an event", r#"{"events": [{"x": 1}]}"#),
        ("member of a fault", r#"{"faults": [{"x": 1}]}"#),
        ("member of `play`", r#"{"play": [{"x": 1}]}"#),
    ] {
        let error = Scenario::parse("unknown-member", "text", text.as_bytes()).unwrap_err();
        // "unknown field `x`, expected one of `at`, `for`"
        let (_, known) = error.split_once("expected one of ").expect(&error);
        assert_eq!(
            first_cells(&page, heading),
            in_code(known).collect(),
            "{heading}"
        );
    }
}
