//! Comparison with golden files. `UPDATE_GOLDENS=1 cargo test` rewrites them; read the difference before you commit it.

use std::{fs, path::Path};

/// The first difference from the file as a message; `None` when they are equal.
#[expect(
    clippy::disallowed_methods,
    reason = "the variable belongs to the tests, and a golden needs no atomic write"
)]
pub(crate) fn difference(file: &Path, actual: &str) -> Option<String> {
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(file, actual).unwrap();
        return None;
    }
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let Ok(expected) = fs::read_to_string(file) else {
        return Some(format!(
            "{name} is missing: write it with UPDATE_GOLDENS=1 cargo test"
        ));
    };
    if expected == actual {
        return None;
    }
    let changed = expected
        .lines()
        .zip(actual.lines())
        .find(|(expected, actual)| expected != actual);
    let (expected_line, actual_line) = changed.unwrap_or(("(its end)", "(another end)"));
    Some(format!(
        "{name} differs, first here:\n  expected {expected_line}\n  actual   {actual_line}"
    ))
}
