//! Checks the examples and tables of `docs/simulator.md`.

use std::{collections::BTreeSet, fs, path::Path};

use azure_scheduled_events_exporter::simulator::{Scenario, catalog};

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/simulator.md")).unwrap()
}

#[test]
fn example_scenario_file_is_valid() {
    let page = page();
    let (_, rest) = page.split_once("```json\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("game-day.json");
    {
        use std::io::Write as _;
        fs::File::create(&file)
            .unwrap()
            .write_all(example.as_bytes())
            .unwrap();
    }
    let scenario = Scenario::load(&file).unwrap();
    assert_eq!(
        (
            &*scenario.name,
            scenario.events.len(),
            scenario.faults.len()
        ),
        ("game-day", 1, 1)
    );
}

#[test]
fn every_built_in_scenario_is_documented() {
    let page = page();
    for (name, _) in catalog() {
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is not in docs/simulator.md"
        );
    }
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
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("unknown-member.json");
    for (heading, text) in [
        ("member of the file", r#"{"x": 1}"#),
        ("member of an event", r#"{"events": [{"x": 1}]}"#),
        ("member of a fault", r#"{"faults": [{"x": 1}]}"#),
        ("member of `play`", r#"{"play": [{"x": 1}]}"#),
    ] {
        fs::File::create(&file)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .unwrap();
        let error = Scenario::load(&file).unwrap_err();
        // "unknown field `x`, expected one of `at`, `for`"
        let (_, known) = error.split_once("expected one of ").expect(&error);
        assert_eq!(
            first_cells(&page, heading),
            in_code(known).collect(),
            "{heading}"
        );
    }
}

#[test]
fn error_for_a_directory_as_scenario_file_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let error = Scenario::load(directory.path()).unwrap_err();
    assert!(
        error.starts_with("scenario file ") && !error.contains('\n'),
        "{error}"
    );
}
