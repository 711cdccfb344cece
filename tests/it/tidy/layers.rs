//! The folders of `src/lib.rs`: each imports only from those before it, and `core` does no I/O.

use super::{Source, production};

/// The folders, each with those that it may import beside itself.
const FOLDERS: [(&str, &[&str]); 7] = [
    ("base", &[]),
    ("http", &["base"]),
    ("azure", &["base", "http"]),
    ("core", &["base", "http", "azure"]),
    ("outputs", &["base", "http", "azure", "core"]),
    ("simulator", &["base", "http", "azure"]),
    (
        "program",
        &["base", "http", "azure", "core", "outputs", "simulator"],
    ),
];

/// What pure code names of neither the standard library nor a crate. The engine logs; the rest of `core` does not.
const IO: [&str; 12] = [
    "clap::",
    "hyper::",
    "reqwest::",
    "socket2::",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::time::Instant",
    "std::time::SystemTime",
    "tokio::",
    "tracing::",
];

/// The folder of a file, `None` for `main.rs` and `lib.rs`.
fn folder(path: &str) -> Option<&str> {
    path.strip_prefix("src/")?
        .split_once('/')
        .map(|(folder, _)| folder)
}

fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join(" ")
}

/// The first names of the paths that begin with `crate::`, also those of a group.
fn imported(text: &str) -> Vec<String> {
    let code = code(text);
    let mut names = Vec::new();
    for (_, rest) in code
        .match_indices("crate::")
        .map(|(at, it)| code.split_at(at + it.len()))
    {
        let Some(group) = rest.strip_prefix('{') else {
            names.push(rest);
            continue;
        };
        let (mut depth, mut is_start) = (0, true);
        for (at, c) in group.char_indices() {
            if c == '}' && depth == 0 {
                break;
            }
            if is_start && depth == 0 && c.is_alphabetic() {
                names.push(group.split_at(at).1);
            }
            is_start = c == ',' || is_start && c.is_whitespace();
            depth += i32::from(c == '{') - i32::from(c == '}');
        }
    }
    let name = |path: &str| {
        path.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    names.into_iter().map(name).collect()
}

fn wrong(Source { path, text }: &Source) -> Vec<String> {
    let Some(own) = folder(path) else {
        return Vec::new();
    };
    let Some((_, allowed)) = FOLDERS.iter().find(|(name, _)| *name == own) else {
        return vec![format!("{path}: {own} is not a folder of src/lib.rs")];
    };
    let is_wrong = |name: &String| name != own && !allowed.contains(&name.as_str());
    let mut wrong: Vec<_> = imported(text)
        .into_iter()
        .filter(is_wrong)
        .map(|name| format!("{path}: {own} must not import {name}"))
        .collect();
    // `super` must not leave the folder without being seen.
    let depth = path.trim_end_matches("/mod.rs").split('/').count() - 1;
    if code(text).contains(&"super::".repeat(depth)) {
        wrong.push(format!("{path}: a path with super leaves {own}"));
    }
    let io = IO
        .iter()
        .filter(|name| own == "core" && code(text).contains(*name))
        .filter(|name| **name != "tracing::" || !path.starts_with("src/core/engine/"));
    wrong.extend(io.map(|name| format!("{path}: core is pure and must not use {name}")));
    wrong
}

#[test]
fn each_folder_imports_only_those_before_it() {
    let sources = production();
    let found: usize = sources
        .iter()
        .map(|source| imported(&source.text).len())
        .sum();
    assert!(found > 200, "only {found} imports were found");
    let wrong: Vec<_> = sources.iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
