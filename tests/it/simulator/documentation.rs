//! What `docs/simulator.md` says is so.

use std::{fs, path::Path};

use azure_scheduled_events_exporter::simulator::{Scenario, catalog};

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/simulator.md")).unwrap()
}

#[test]
fn example_of_a_scenario_file_can_be_played() {
    let page = page();
    let (_, rest) = page.split_once("```json\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("game-day.json");
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
fn folder_in_place_of_a_file_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let error = Scenario::load(folder.path()).unwrap_err().to_string();
    assert!(
        error.starts_with("scenario file ") && !error.contains('\n'),
        "{error}"
    );
}
