//! Reads the `use` declarations and paths of a source file: enough of the grammar for what rustfmt writes.

use std::collections::BTreeMap;

/// Every path that a source names, from the crate's root, as segments: `crate::a::{b, c::D}` gives `a b` and `a c D`,
/// `super::x` is resolved against the module. Paths of other crates begin with their name.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// Within the crate.
    pub(super) own: Vec<Vec<String>>,
    /// Of other crates, as written.
    pub(super) foreign: Vec<String>,
    /// The names that a `pub use` exports, with the paths of what they name.
    pub(super) exported: BTreeMap<String, Vec<String>>,
}

/// The module of a file: `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`.
pub(super) fn module(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let inner = inner.trim_end_matches("/mod");
    inner.split('/').map(str::to_owned).collect()
}

/// What the source of a module names.
pub(super) fn of(module: &[String], text: &str) -> Imports {
    let code = without_comments(text);
    let mut imports = Imports::default();
    let mut rest = String::new();
    let mut declarations = Vec::new();
    let mut children = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        if let Some(child) = child_module(trimmed) {
            children.push(child.to_owned());
        }
        let declaration = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "]
            .iter()
            .find_map(|start| Some((trimmed.strip_prefix(start)?, *start != "use ")));
        let Some((declaration, is_exported)) = declaration else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut whole = declaration.to_owned();
        while !whole.contains(';') {
            whole.push_str(lines.next().expect("a use declaration has an end"));
        }
        declarations.push((whole, is_exported));
    }
    for (declaration, is_exported) in declarations {
        let tree: String = declaration
            .split(';')
            .next()
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        for path in expanded(&tree) {
            let first = path.split("::").next().unwrap();
            let path = if children.iter().any(|child| child == first) {
                format!("self::{path}")
            } else {
                path
            };
            let before = imports.own.len();
            imports.add(module, &path);
            if let Some(own) = imports.own.get(before).filter(|_| is_exported) {
                let name = own.last().unwrap().clone();
                imports.exported.insert(name, own.clone());
            }
        }
    }
    imports.add_paths(module, &rest);
    imports
}

impl Imports {
    /// The paths in code outside of `use` declarations.
    fn add_paths(&mut self, module: &[String], rest: &str) {
        for marker in [
            "crate::",
            "super::",
            "serde::",
            "serde_json::",
            "tokio::",
            "std::",
            "reqwest::",
            "hyper::",
        ] {
            for (at, _) in rest.match_indices(marker) {
                let (before, path) = rest.split_at(at);
                let before = before.chars().next_back();
                if before.is_none_or(|c| !c.is_alphanumeric() && !"_:$".contains(c)) {
                    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                    let path: String = path.chars().take_while(|c| is_path(*c)).collect();
                    self.add(module, path.trim_end_matches(':'));
                }
            }
        }
    }

    fn add(&mut self, module: &[String], path: &str) {
        let mut segments: Vec<String> = path
            .split("::")
            .map(|part| part.trim().to_owned())
            .collect();
        match segments.first().map(String::as_str) {
            Some("crate") => {
                segments.remove(0);
                self.own.push(segments);
            }
            Some("super" | "self") => {
                let mut target = module.to_vec();
                while let Some(first) = segments.first() {
                    match first.as_str() {
                        "super" => target.pop().map(|_| ()).expect("a module has a parent"),
                        "self" => {}
                        _ => break,
                    }
                    segments.remove(0);
                }
                target.extend(segments);
                self.own.push(target);
            }
            _ => self.foreign.push(path.to_owned()),
        }
    }
}

/// The name of a module that a line declares.
fn child_module(line: &str) -> Option<&str> {
    let rest = ["mod ", "pub mod ", "pub(crate) mod ", "pub(super) mod "]
        .iter()
        .find_map(|start| line.strip_prefix(start))?;
    rest.strip_suffix(';')
}

/// The paths of a use tree.
fn expanded(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap().trim();
        return vec![
            path.trim_end_matches("::self")
                .trim_end_matches("::*")
                .to_owned(),
        ];
    };
    let (prefix, group) = tree.split_at(open);
    let prefix = prefix.trim();
    let group = group
        .strip_prefix('{')
        .and_then(|group| group.trim().strip_suffix('}'));
    let group = group.expect("a group has an end");
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(c);
        }
    }
    let parts = parts
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty());
    parts
        .flat_map(|part| expanded(&format!("{prefix}{part}")))
        .collect()
}

fn without_comments(text: &str) -> String {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

#[test]
fn nested_groups_are_read() {
    let text = "use crate::{\n    event::{Event, EventScope},\n    imds::{self, Client as C},\n};\nuse super::x::Y;\nfn f() -> crate::time::Timestamp { tokio::spawn(g()) }\n";
    let imports = of(&module("src/app/polling.rs"), text);
    let own: Vec<_> = imports.own.iter().map(|path| path.join("::")).collect();
    assert_eq!(
        own,
        [
            "event::Event",
            "event::EventScope",
            "imds",
            "imds::Client",
            "app::x::Y",
            "time::Timestamp"
        ]
    );
    assert_eq!(imports.foreign, ["tokio::spawn"]);
}
