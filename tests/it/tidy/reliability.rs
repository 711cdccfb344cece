//! The tests that `docs/reliability.md` names exist.

use std::collections::BTreeSet;

use super::{Source, below, root};

const PAGE: &str = "docs/reliability.md";

/// What the last column of the tables names: functions, and scripts with their path.
fn named(page: &str) -> BTreeSet<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let tests = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    tests
        .flat_map(|tests| tests.split('`').skip(1).step_by(2))
        .collect()
}

fn exists(name: &str, sources: &[Source]) -> bool {
    if name.contains('/') {
        return root().join(name).is_file();
    }
    let function = format!("fn {name}(");
    sources.iter().any(|source| source.text.contains(&function))
}

#[test]
fn every_test_that_the_page_on_reliability_names_exists() {
    let page = std::fs::read_to_string(root().join(PAGE)).unwrap();
    let sources: Vec<_> = ["src", "tests"].into_iter().flat_map(below).collect();
    let named = named(&page);
    assert!(named.len() > 40, "only {} tests are named", named.len());
    let missing: Vec<_> = named
        .iter()
        .filter(|name| !exists(name, &sources))
        .collect();
    assert!(missing.is_empty(), "{PAGE} names no test: {missing:#?}");
}

#[test]
fn names_are_read_from_the_last_column() {
    let page = "| promise | fault | test |\n|---|---|---|\n| A | `b` | `one`, `tests/two` |\n`c`\n";
    assert_eq!(
        named(page).into_iter().collect::<Vec<_>>(),
        ["one", "tests/two"]
    );
    assert!(!exists("no_such_test_in_the_tree", &[]));
    assert!(exists("tests/fuzz", &[]));
}
