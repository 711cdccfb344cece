//! The documents name only what exists: files, headings, tests, metrics, variables, and flags of the exporter where a page
//! shows commands.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
};

use azure_scheduled_events_exporter::{
    cli::{self, Cli},
    metrics::catalog::{self, MetricType},
    otlp::settings::OtlpSettings,
};
use clap::CommandFactory as _;

use super::{Source, below, root};

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

fn pages() -> Vec<Source> {
    let mut pages = below("");
    pages.retain(|page| page.has_extension("md") && !page.path.starts_with('.'));
    assert!(pages.len() > 20, "pages are missing");
    pages
}

/// Fails with what a page names and this does not find.
fn assert_all_exist<'a>(
    pages: &'a [Source],
    names: impl Fn(&'a str) -> Vec<&'a str>,
    exists: impl Fn(&str, &str) -> bool,
) {
    let mut missing = BTreeSet::new();
    let mut found = 0;
    for Source { path, text } in pages {
        let names = names(text);
        found += names.len();
        let unknown = names.into_iter().filter(|name| !exists(path, name));
        missing.extend(unknown.map(|name| format!("{path}: {name}")));
    }
    assert!(found > 10, "only {found} names");
    assert!(missing.is_empty(), "these do not exist: {missing:#?}");
}

/// The code blocks of all pages that have one of these texts.
pub(crate) fn code_blocks(texts: &[&str]) -> Vec<String> {
    let has_text = |block: &&str| texts.iter().any(|text| block.contains(text));
    let blocks = |page: Source| -> Vec<_> {
        let blocks = page.text.split("```").skip(1).step_by(2);
        blocks.filter(has_text).map(str::to_owned).collect()
    };
    let blocks: Vec<_> = pages().into_iter().flat_map(blocks).collect();
    assert!(!blocks.is_empty(), "no block has one of {texts:?}");
    blocks
}

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("```").step_by(2);
    blocks.flat_map(str::lines)
}

/// The targets of links to this repository.
fn targets(text: &str) -> Vec<&str> {
    prose(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split([')', ' ']).next())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// Whether a page has the anchor, as GitHub makes them from headings.
fn has_anchor(text: &str, anchor: &str) -> bool {
    let mut headings = prose(text).filter(|line| line.starts_with('#'));
    headings.any(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        heading
            .replace(' ', "-")
            .chars()
            .filter(kept)
            .eq(anchor.chars())
    })
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    assert_all_exist(&pages(), targets, |page, target| {
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let page = root().join(page);
        let file = match path {
            "" => page,
            path => page.with_file_name(path),
        };
        let text = || fs::read_to_string(&file).unwrap_or_default();
        file.exists() && (anchor.is_empty() || has_anchor(&text(), anchor))
    });
}

#[test]
fn every_page_is_in_the_index() {
    let pages = below("docs");
    let index = pages.iter().find(|page| page.path == "docs/README.md");
    let index = targets(&index.unwrap().text);
    for page in &pages {
        let name = page.path.trim_start_matches("docs/");
        assert!(name == "README.md" || index.contains(&name), "{name}");
    }
}

/// The paths of this repository in a text. A pattern or a placeholder is none.
fn paths(text: &str) -> Vec<&str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "._-/*…{}$".contains(c);
    text.split(|c| !is_path(c))
        .map(|word| word.trim_end_matches(['.', '/']))
        .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)))
        .filter(|word| !word.contains(['*', '…', '{', '$']) && !word.contains("NAME"))
        .collect()
}

#[test]
fn every_path_that_is_named_exists() {
    let mut pages = pages();
    // Its entries of older versions name what these had.
    pages.retain(|page| page.path != "CHANGELOG.md");
    assert_all_exist(&pages, paths, |_, path| root().join(path).exists());
}

/// The pages of the installation. Others also show flags of Prometheus, whose names have dots, too.
const INSTALLATION: [&str; 4] = [
    "docs/aks.md",
    "docs/azure-monitor.md",
    "docs/install.md",
    "docs/linux.md",
];

/// The flags of the exporter, whose names have dots.
fn flags(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "-.".contains(c)))
        .filter_map(|word| word.trim_end_matches('.').strip_prefix("--"))
        .filter(|flag| flag.contains('.'))
        .collect()
}

#[test]
fn every_flag_that_an_installation_shows_exists() {
    let mut pages = below("docs");
    pages.retain(|page| INSTALLATION.contains(&&*page.path));
    pages.extend(below("packaging/azure"));
    let command = Cli::command();
    assert_all_exist(&pages, flags, |_, name| {
        command
            .get_arguments()
            .any(|flag| flag.get_long() == Some(name))
    });
}

/// The functions that tests are named after: code of four words and more.
fn tests(text: &str) -> Vec<&str> {
    let is_test = |code: &&str| {
        code.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && code.matches('_').count() >= 3
    };
    text.split('`').skip(1).step_by(2).filter(is_test).collect()
}

/// A function that is no test fails the build: nothing calls it.
#[test]
fn every_test_that_the_page_on_reliability_names_exists() {
    let mut pages = below("docs/internals");
    pages.retain(|page| page.path.ends_with("/reliability.md"));
    let sources: Vec<_> = ["src", "tests"].into_iter().flat_map(below).collect();
    assert_all_exist(&pages, tests, |_, name| {
        let function = format!("fn {name}(");
        sources.iter().any(|source| source.text.contains(&function))
    });
}

/// The metrics that a text names, and beginnings of their names. Names with a colon belong to recording rules.
fn metrics(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .filter(|word| word.starts_with("azure_scheduled_event") && !word.contains(':'))
        .filter(|word| *word != "azure_scheduled_events_exporter")
        .collect()
}

/// Whether a scraped name is in the catalog. A histogram has three names, and `azure_scheduled_event_` is a prefix.
fn is_metric(name: &str) -> bool {
    let is_prefix =
        name.ends_with('_') || ["azure_scheduled_event", "azure_scheduled_events"].contains(&name);
    catalog::ALL.iter().any(|metric| {
        let end = name.strip_prefix(metric.name);
        match end {
            Some("") => true,
            Some("_bucket" | "_sum" | "_count") => metric.kind == MetricType::Histogram,
            _ => is_prefix && metric.name.starts_with(name),
        }
    })
}

#[test]
fn every_metric_that_is_named_is_in_the_catalog() {
    let folders = ["dashboards", "alerts", "docs"];
    let mut pages: Vec<_> = folders.into_iter().flat_map(below).collect();
    pages.extend(
        self::pages()
            .into_iter()
            .filter(|page| page.path == "README.md"),
    );
    assert_all_exist(&pages, metrics, |_, name| is_metric(name));
}

#[test]
fn every_variable_that_a_block_sets_is_read() {
    for block in code_blocks(&["OTEL_"]) {
        let variables = block.split_whitespace().filter_map(|it| it.split_once('='));
        let variables = variables.filter(|(name, _)| name.starts_with("OTEL_"));
        let variables: BTreeMap<_, _> = variables.collect();
        let read = RefCell::new(BTreeSet::new());
        let settings = OtlpSettings::from_env(|name| {
            read.borrow_mut().insert(name.to_owned());
            variables.get(name).map(|&value| value.to_owned())
        });
        assert_eq!(settings.unwrap().unwrap().ignored, [""; 0], "{block}");
        let read = read.into_inner();
        let unread = variables.keys().find(|&&name| !read.contains(name));
        assert_eq!(unread, None, "{block}");
    }
}

#[test]
fn every_command_that_a_block_shows_is_valid() {
    let name = "azure-scheduled-events-exporter ";
    let mut checked = 0;
    for block in code_blocks(&[name, "ARGS=\""]) {
        let text = block
            .replace("\\\n", " ")
            .replace("ARGS=\"", &format!("\n{name}"));
        for command in text.split(['\n', '|', '&', ';', '(', ')', '\'']) {
            let words = command.replace(['"', '$'], "");
            let words = words.split_whitespace();
            let words: Vec<_> = words.skip_while(|it| it.starts_with("OTEL_")).collect();
            if words.first() == Some(&name.trim_end()) {
                let parsed = cli::parse(words.iter().map(Into::into));
                assert!(parsed.is_ok(), "{command}: {:?}", parsed.err());
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "only {checked} commands");
}
