//! Rules for the sources and for the names in the documents, checked on the files themselves.

use std::{
    fs,
    path::{Path, PathBuf},
};

mod layers;
mod links;
mod names;
mod reference;
mod reliability;

/// Production lines of one file.
const MAX_LINES: usize = 500;
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the project: its path from the root with slashes, and its text.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every text file below `folder`, in the order of the paths; other files are left out.
pub(crate) fn below(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found.sort();
    let source = |path: PathBuf| {
        let text = fs::read_to_string(&path).ok()?;
        let path = path.strip_prefix(root()).unwrap();
        let path = path.to_str().unwrap().replace('\\', "/");
        Some(Source { path, text })
    };
    found.into_iter().filter_map(source).collect()
}

fn walk(path: &Path, found: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_foreign = [
        "target",
        ".git",
        "node_modules",
        "Cargo.lock",
        "__pycache__",
    ]
    .contains(&&*name);
    if is_foreign || path.is_symlink() {
        return;
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            walk(&entry.unwrap().path(), found);
        }
    } else if path.is_file() {
        found.push(path.to_owned());
    }
}

/// The Rust sources of the program.
pub(crate) fn sources() -> Vec<Source> {
    let sources: Vec<_> = below("src")
        .into_iter()
        .filter(|source| is_rust(&source.path))
        .collect();
    assert!(sources.len() > 50, "sources are missing");
    sources
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|kind| kind == "rs")
}

/// Test-only modules: those declared after `#[cfg(test)]`.
fn test_files(sources: &[Source]) -> Vec<String> {
    let mut files = Vec::new();
    for source in sources {
        let folder = match source.path.strip_suffix("/mod.rs") {
            Some(folder) => folder.to_owned(),
            None => source.path.trim_end_matches(".rs").to_owned(),
        };
        let lines: Vec<_> = source.text.lines().map(str::trim).collect();
        for pair in lines.windows(2) {
            if pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with(';') {
                let name = pair[1].trim_start_matches("mod ").trim_end_matches(';');
                files.push(format!("{folder}/{name}.rs"));
                files.push(format!("{folder}/{name}/"));
            }
        }
    }
    files
}

/// The sources without their tests.
pub(crate) fn production() -> Vec<Source> {
    let sources = sources();
    let tests = test_files(&sources);
    let without_tests = |source: Source| {
        let parts = source.text.split_once("#[cfg(test)]\nmod tests {");
        let text = parts
            .map_or(source.text.as_str(), |(before, _)| before)
            .to_owned();
        Source { text, ..source }
    };
    sources
        .into_iter()
        .filter(|source| !tests.iter().any(|test| source.path.starts_with(test)))
        .map(without_tests)
        .collect()
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
