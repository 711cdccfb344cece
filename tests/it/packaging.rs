//! Man pages and shell completions in `packaging` follow from the flags. They are golden files: see `support::golden`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use azure_scheduled_events_exporter::cli::Cli;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{support::golden, tidy::root};

const PROGRAM: &str = "azure-scheduled-events-exporter";

fn packaging(path: &str) -> PathBuf {
    root().join("packaging").join(path)
}

/// The command line. Its version has no revision, which changes with every commit.
fn command() -> Command {
    Cli::command().version(env!("CARGO_PKG_VERSION"))
}

/// The page of a command, with the sections of `packaging/man/NAME.roff` if that exists.
fn man_page(man: &Man, sections: &Path) -> String {
    let mut page = Vec::new();
    man.render(&mut page).unwrap();
    let mut page = String::from_utf8(page).unwrap();
    if let Ok(sections) = fs::read_to_string(sections) {
        page.push_str(&sections);
    }
    page
}

#[test]
fn man_pages_follow_from_the_flags() {
    let mut command = command();
    command.build();
    let commands: Vec<_> = command.get_subcommands().chain([&command]).collect();
    assert_eq!(commands.len(), 5);
    let differences: Vec<_> = commands
        .into_iter()
        .filter_map(|command| {
            // Without a date, the source takes its place.
            let man = Man::new(command.clone())
                .date(" ")
                .source(env!("CARGO_PKG_VERSION"))
                .manual("User Commands");
            let file = packaging("man").join(man.get_filename());
            let page = man_page(&man, &file.with_extension("roff"));
            golden::difference(&file, &page)
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn completions_follow_from_the_flags() {
    let shells = [
        (Shell::Bash, "bash/azure-scheduled-events-exporter"),
        (Shell::Zsh, "zsh/_azure-scheduled-events-exporter"),
        (Shell::Fish, "fish/azure-scheduled-events-exporter.fish"),
    ];
    let differences: Vec<_> = shells
        .into_iter()
        .filter_map(|(shell, name)| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), PROGRAM, &mut script);
            let script = String::from_utf8(script).unwrap();
            golden::difference(&packaging(&format!("completions/{name}")), &script)
        })
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
