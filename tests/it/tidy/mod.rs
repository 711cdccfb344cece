//! Rules for the sources and for the names in the documents, checked on the files themselves.

use std::{fs, path::Path};

pub(crate) mod documents;
mod layers;
mod reference;

/// Production lines of one file.
const MAX_LINES: usize = 500;
const FOREIGN: [&str; 4] = ["target", ".git", "node_modules", "__pycache__"];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the project: its path from the root with slashes, and its text.
#[derive(Debug)]
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|it| it == extension)
    }
}

/// Every text file below `folder`.
fn below(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        // Symbolic links are neither.
        let kind = entry.file_type().unwrap();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        if FOREIGN.contains(&&*name) {
            continue;
        }
        if kind.is_dir() {
            found.extend(below(&path));
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            found.push(Source { path, text });
        }
    }
    found
}

/// The Rust sources of the program without their tests.
fn production() -> Vec<Source> {
    let mut sources = below("src");
    let is_test = |path: &str| {
        path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("/fixtures.rs")
    };
    sources.retain(|source| source.has_extension("rs") && !is_test(&source.path));
    assert!(sources.len() > 50, "sources are missing");
    for source in &mut sources {
        let tests = source.text.find("#[cfg(test)]\nmod tests {");
        source.text.truncate(tests.unwrap_or(source.text.len()));
    }
    sources
}

#[test]
fn files_are_short() {
    let long: Vec<_> = production()
        .into_iter()
        .map(|source| (source.text.lines().count(), source.path))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .collect();
    assert!(long.is_empty(), "more than {MAX_LINES} lines: {long:?}");
}

/// It aborts the process when the system has no thread left; `Worker` is started once.
#[test]
fn no_production_code_uses_the_blocking_threads_of_tokio() {
    for source in production() {
        for line in source.text.lines() {
            let is_comment = line.trim_start().starts_with("//");
            let is_use = line.contains("spawn_blocking") || line.contains("tokio::fs");
            assert!(is_comment || !is_use, "{}: {line}", source.path);
        }
    }
}

#[test]
fn no_file_contains_a_local_path() {
    let mut found = Vec::new();
    for source in below("") {
        if source.path.starts_with("tests/") {
            continue;
        }
        for (number, line) in source.text.lines().enumerate() {
            if ["work", "root", "tmp"]
                .map(|folder| format!("/{folder}/"))
                .iter()
                .any(|folder| contains_path(line, folder))
            {
                found.push(format!("{}:{}: {line}", source.path, number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Whether the line contains a path that begins with this folder; not within a longer path or a URL.
fn contains_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line.split_at(at).0.chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"./-_}".contains(c))
    })
}
