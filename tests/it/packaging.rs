//! The man page in `packaging` follows from the flags. It is a golden file: see `support::golden`.

use std::fs;

use azure_scheduled_events_exporter::cli::Cli;
use clap::CommandFactory as _;
use clap_mangen::Man;

use crate::{support::golden, tidy::root};

#[test]
fn man_page_follows_from_the_flags() {
    // The version of the command line has a revision, which changes with every commit.
    let command = Cli::command().version(env!("CARGO_PKG_VERSION"));
    let mut page = Vec::new();
    // Without a date, the source takes its place.
    Man::new(command)
        .date(" ")
        .source(env!("CARGO_PKG_VERSION"))
        .manual("User Commands")
        .render(&mut page)
        .unwrap();
    // The commands have no pages of their own, but `--help`.
    let page = String::from_utf8(page)
        .unwrap()
        .replace("events\\-exporter\\-", "events\\-exporter ")
        .replace("(1)\n", " \\-\\-help\n");
    let folder = root().join("packaging/man");
    let sections = fs::read_to_string(folder.join("azure-scheduled-events-exporter.roff")).unwrap();
    let file = folder.join("azure-scheduled-events-exporter.1");
    let difference = golden::difference(&file, &(page + &sections));
    assert!(difference.is_none(), "{}", difference.unwrap_or_default());
}
