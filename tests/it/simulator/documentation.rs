//! Checks the examples and tables of `docs/simulator.md`.

use std::{fs, path::Path};

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

#[test]
fn error_for_a_directory_as_scenario_file_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let error = Scenario::load(directory.path()).unwrap_err();
    assert!(
        error.starts_with("scenario file ") && !error.contains('\n'),
        "{error}"
    );
}
