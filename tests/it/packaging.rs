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

/// The flags that the chart accepts in `extraArgs` are those of the exporter, with the values that their help names.
#[test]
fn schema_of_the_chart_has_the_flags() {
    const TEXT: &str = r"[^\\x00-\\x1f\\x7f]";
    let mut command = Cli::command();
    command.build();
    let mut flags = Vec::new();
    for flag in command.get_arguments() {
        let name = flag.get_long().unwrap_or_default().replace('.', r"\\.");
        let values = flag.get_possible_values();
        let values: Vec<_> = values
            .iter()
            .map(clap::builder::PossibleValue::get_name)
            .collect();
        match flag.get_value_names() {
            // They end the program.
            _ if ["", "help", "version"].contains(&name.as_str()) => {}
            _ if !flag.get_action().takes_values() => flags.push(name),
            _ if !values.is_empty() => flags.push(format!("{name}(=({}))?", values.join("|"))),
            Some([unit]) if unit == "DURATION" => {
                flags.push(format!("{name}(=(0|([0-9]+(y|w|d|h|m|s|ms))+))?"));
            }
            _ => flags.push(format!("{name}(={TEXT}+)?")),
        }
    }
    let file = root().join("packaging/helm/azure-scheduled-events-exporter/values.schema.json");
    let schema = fs::read_to_string(&file).unwrap();
    let (before, rest) = schema.split_once("\"pattern\": \"^(--(").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    // An item without dashes is the value of the flag before it.
    let pattern = format!(r"{})|(-?[^\\x00-\\x1f\\x7f-]{TEXT}*)?)$", flags.join("|"));
    let written = format!("{before}\"pattern\": \"^(--({pattern}\"\n{after}");
    assert_eq!(golden::difference(&file, &written), None);
}
