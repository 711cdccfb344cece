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

/// The lines without comments.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join(" ")
}

/// Whether a path begins with this folder, also one within a group.
fn imports(code: &str, folder: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(folder).any(|(at, _)| {
        let (before, rest) = code.split_at(at);
        let after = rest.split_at(folder.len()).1;
        let is_absolute = before.ends_with("crate::") && !after.starts_with(is_word);
        let is_start = !before.ends_with(|c| is_word(c) || c == ':') && after.starts_with("::");
        is_absolute || is_start
    })
}

#[test]
fn each_folder_imports_only_those_before_it() {
    let (mut found, mut wrong) = (0, Vec::new());
    for Source { path, text } in production() {
        let code = code(&text);
        let inner = path.trim_start_matches("src/");
        let Some((own, _)) = inner.split_once('/') else {
            continue;
        };
        let allowed = FOLDERS.iter().find(|(name, _)| *name == own);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{own} is not in src/lib.rs"));
        let names = FOLDERS.map(|(name, _)| name).into_iter();
        for name in names.filter(|name| *name != own && imports(&code, name)) {
            found += 1;
            if !allowed.contains(&name) {
                wrong.push(format!("{path}: {own} must not import {name}"));
            }
        }
        // `super` must not leave the folder without being seen.
        let depth = path.trim_end_matches("/mod.rs").matches('/').count();
        if code.contains(&"super::".repeat(depth)) {
            wrong.push(format!("{path}: a path with super leaves {own}"));
        }
        for name in IO {
            let logs = name == "tracing::" && path.starts_with("src/core/engine/");
            if own == "core" && code.contains(name) && !logs {
                wrong.push(format!("{path}: core is pure and must not use {name}"));
            }
        }
    }
    assert!(found > 150, "only {found} imports were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
