//! The tests that `docs/internals/reliability.md` names exist and are run.

use std::collections::BTreeSet;

use super::{Source, below, root};

const PAGE: &str = "docs/internals/reliability.md";

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
    sources
        .iter()
        .any(|source| contains_test(name, &source.text))
}

/// A function without an attribute that makes it a test is never run. In `proptest!`, it has `#[test]` too.
fn contains_test(name: &str, source: &str) -> bool {
    let function = format!("fn {name}(");
    if !source.contains(&function) {
        return false;
    }
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let is_test = |(at, _): (usize, _)| {
        // Attributes and comments, up to the end of what precedes the function.
        let is_above = |line: &&&str| !line.is_empty() && !line.ends_with(['{', '}', ';']);
        let mut above = lines[..at].iter().rev().take_while(is_above);
        above.any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"))
    };
    let declares = |line: &&str| {
        line.strip_prefix("async ")
            .unwrap_or(line)
            .starts_with(&function)
    };
    let mut found = lines.iter().enumerate().filter(|(_, line)| declares(line));
    found.any(is_test)
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
