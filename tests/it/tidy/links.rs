//! The documents name only what exists: files, headings, and flags of the exporter where a page shows commands.

use std::collections::{BTreeMap, BTreeSet};

use azure_scheduled_events_exporter::cli::Cli;
use clap::CommandFactory as _;

use super::{Source, below, names, root};

/// Folders at the root. A path in a text that begins with one of them is a file of this repository.
const FOLDERS: [&str; 8] = [
    "alerts/",
    "benches/",
    "dashboards/",
    "docs/",
    "fuzz/",
    "packaging/",
    "src/",
    "tests/",
];

/// Pages in Markdown.
fn pages() -> BTreeMap<String, String> {
    let folders = ["docs", "packaging", "alerts"].into_iter().flat_map(below);
    let top = std::fs::read_dir(root()).expect("the root is readable");
    let top = top.filter_map(|entry| {
        let path = entry.expect("the root is readable").path();
        let text = std::fs::read_to_string(&path).ok()?;
        let path = path.file_name()?.to_str()?.to_owned();
        Some(Source { path, text })
    });
    let pages = folders.chain(top).filter(|page| {
        std::path::Path::new(&page.path)
            .extension()
            .is_some_and(|extension| extension == "md")
    });
    pages.map(|page| (page.path, page.text)).collect()
}

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    })
}

/// The targets of links to this repository.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    prose(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split([')', ' ']).next())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// The anchors of a page, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

/// The path of `target`, which is relative to the page.
fn resolve(page: &str, target: &str) -> String {
    let mut path: Vec<&str> = page.split('/').collect();
    path.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.join("/")
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for target in targets(text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match path {
                "" => page.clone(),
                path => resolve(page, path),
            };
            let has_anchor = anchor.is_empty()
                || pages
                    .get(&path)
                    .is_some_and(|text| anchors(text).contains(anchor));
            if !root().join(&path).exists() || !has_anchor {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_index() {
    let pages = pages();
    let index: BTreeSet<_> = targets(&pages["docs/README.md"]).collect();
    let names = pages.keys().filter_map(|page| page.strip_prefix("docs/"));
    let missing: Vec<_> = names
        .filter(|name| *name != "README.md" && !index.contains(name))
        .collect();
    assert!(missing.is_empty(), "not in docs/README.md: {missing:?}");
}

/// The paths of this repository in a text. A pattern or a placeholder ends them.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "._-/*…{}$".contains(c);
    text.split(move |c| !is_path(c))
        .map(|word| word.trim_end_matches(['.', '/']))
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
        .filter(|word| !word.contains(['*', '…', '{', '$']) && !word.contains("NAME"))
}

#[test]
fn every_path_that_is_named_exists() {
    let mut missing = BTreeSet::new();
    for (page, text) in &pages() {
        // Its entries of older versions name what these had.
        if page != "CHANGELOG.md" {
            let absent = paths(text).filter(|path| !root().join(path).exists());
            missing.extend(absent.map(|path| format!("{page}: {path}")));
        }
    }
    let missing: Vec<_> = missing.into_iter().collect();
    assert!(missing.is_empty(), "no such file:\n{}", missing.join("\n"));
}

/// The pages of the installation. Others also show flags of Prometheus, whose names have dots, too.
const INSTALLATION: [&str; 4] = [
    "docs/aks.md",
    "docs/azure-monitor.md",
    "docs/install.md",
    "docs/linux.md",
];

#[test]
fn every_flag_that_an_installation_shows_exists() {
    let command = Cli::command();
    let own: BTreeSet<_> = names::long(&command).collect();
    let mut unknown = Vec::new();
    let pages = below("packaging/azure").into_iter().chain(
        below("docs")
            .into_iter()
            .filter(|page| INSTALLATION.contains(&page.path.as_str())),
    );
    let mut shown = 0;
    for page in pages {
        for flag in names::flags(&page.text) {
            shown += 1;
            let is_exporters = flag.contains('.');
            if is_exporters && !own.contains(flag) {
                unknown.push(format!("{}: --{flag}", page.path));
            }
        }
    }
    assert!(shown > 10, "the pages show no flags");
    assert!(unknown.is_empty(), "no such flag:\n{}", unknown.join("\n"));
}
