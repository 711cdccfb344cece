//! `list`: prints the pending events as a table, or as JSON with Azure's member names.

use std::{fmt::Write as _, time::Duration};

use serde::Serialize;

use super::query::{self, Query};
use crate::{
    azure::{
        document::Document,
        event::{
            AzureForm, Event, EventScope, Member, MemberValue, Source, VmNames, resource_name,
        },
    },
    base::{
        json,
        text::{excerpt, sanitize},
        time::{Timestamp, in_words},
    },
    core::snapshot::Snapshot,
    program::{
        CommandError,
        cli::{Output, QueryFlags},
        logs,
    },
};

pub(super) async fn run(flags: &QueryFlags) -> Result<String, CommandError> {
    let mut query = Query::new(&flags.imds)?;
    let read = async |query: &mut Query| {
        // JSON marks no event.
        let vm = match flags.output {
            Output::Json if query.settings.vm_name.is_none() => {
                Snapshot::empty(None, query.clock.now())
            }
            Output::Json | Output::Table => query.read_vm().await,
        };
        (vm, query.read_first().await)
    };
    let (vm, document) = query.with_notice(query::FIRST_ANSWER, read).await;
    let document = document?;
    let now = query.clock.now().wall;
    let doubts = [query::contradiction(&vm), query::unknown_name(&vm)];
    let doubts = doubts.into_iter().flatten();
    let doubts = doubts.map(|doubt| format!("Note: {}.\n", sanitize(&doubt)));
    match flags.output {
        Output::Table => {
            let text = if document.has_no_events() {
                query::NO_EVENTS.to_owned()
            } else {
                table(&document, &vm, now)
            };
            Ok(text + &doubts.collect::<String>())
        }
        Output::Json => {
            doubts.for_each(|doubt| logs::print_stderr(&doubt));
            if document.has_no_events() {
                logs::print_stderr(query::NO_EVENTS);
            }
            json::to_text(&Listing {
                document_incarnation: document.incarnation,
                unreadable_entries: document.unreadable.entries,
                warming_up: None,
                events: document.events.iter().map(AzureForm).collect(),
            })
            .map_err(|error| CommandError::new(error.to_string()))
        }
    }
}

#[derive(Serialize)]
struct Listing<'a> {
    document_incarnation: Option<i64>,
    /// Entries of `Events` that could not be read; each may be an event.
    unreadable_entries: usize,
    /// Known to the exporter only, in `/api/v1/events`.
    warming_up: Option<bool>,
    events: Vec<AzureForm<'a>>,
}

/// Heading, member, and the text of a missing value. The time until the start is no member.
const COLUMNS: [(&str, Option<Member>, &str); 9] = [
    ("TYPE", Some(Member::TYPE), "-"),
    ("STATUS", Some(Member::STATUS), "-"),
    ("NOT BEFORE (UTC)", Some(Member::NOT_BEFORE), "-"),
    ("IN", None, "-"),
    ("DURATION", Some(Member::DURATION), "unknown"),
    ("SOURCE", Some(Member::SOURCE), Source::NOT_GIVEN),
    ("RESOURCES", Some(Member::RESOURCES), "unknown"),
    ("DESCRIPTION", Some(Member::DESCRIPTION), "-"),
    ("EVENT ID", Some(Member::ID), "-"),
];

/// Characters of a cell. An event id has at most 256 bytes, and formatting panics on columns of 65,536 and more.
const MAX_CELL: usize = 256;
/// In the column of resources.
const MAX_NAMES: usize = 3;

/// A table with aligned columns. The name of this VM is marked with `*`.
fn table(document: &Document, vm: &Snapshot, now: Timestamp) -> String {
    let names = query::vm_names(vm);
    let mut rows = vec![COLUMNS.map(|(heading, _, _)| heading.to_owned())];
    rows.extend(document.events.iter().map(|event| {
        COLUMNS.map(|(_, member, missing)| {
            let cell = cell(event, member.as_ref(), names, now);
            let cell = cell.filter(|cell| !cell.is_empty());
            excerpt(cell.as_deref().unwrap_or(missing), MAX_CELL)
        })
    }));
    let mut widths = [0; COLUMNS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut table = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        table.push_str(cells.join("  ").trim_end());
        table.push('\n');
    }
    let mut events = document.events.iter();
    if events.any(|event| event.scope(names) == EventScope::Own) {
        let host = vm.identity.as_ref().and_then(|identity| identity.host());
        let host = host.map(|host| format!(", host {}", excerpt(host, MAX_CELL)));
        writeln!(table, "* this VM{}", host.unwrap_or_default()).ok();
    }
    if !document.is_complete() {
        let unreadable = document.unreadable.entries;
        writeln!(table, "{unreadable} more could not be parsed, see the log.").ok();
    }
    table
}

fn cell(event: &Event, member: Option<&Member>, vm: VmNames<'_>, now: Timestamp) -> Option<String> {
    let Some(member) = member else {
        let at = event.deadline()?;
        return Some(if at >= now {
            in_words(at.saturating_since(now))
        } else {
            format!("overdue {}", in_words(now.saturating_since(at)))
        });
    };
    Some(match (member.value)(event)? {
        MemberValue::Id(id) => id.as_str().to_owned(),
        MemberValue::Text(text) => text.to_owned(),
        MemberValue::Names(names) => resource_names(names, vm),
        MemberValue::Time(at) => at.rfc3339(),
        MemberValue::Seconds(seconds) => in_words(Duration::from_secs(seconds)),
    })
}

/// At most [`MAX_NAMES`] in Azure's order, in which the first VM leads, and that of this VM among them.
fn resource_names(names: &[Box<str>], vm: VmNames<'_>) -> String {
    let mark = |name: &str| if vm.contain(name) { "*" } else { "" };
    let marked = |name| format!("{}{}", resource_name(name), mark(name));
    let mut shown: Vec<_> = names.iter().map(|name| marked(name)).collect();
    let own = names.iter().position(|name| vm.contain(name));
    if let Some(own) = own.filter(|own| *own >= MAX_NAMES) {
        shown.swap(own, MAX_NAMES - 1);
    }
    shown.truncate(MAX_NAMES);
    let shown = shown.join(",");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_in_the_order_of_azure_and_have_this_vm() {
        for (names, expected) in [
            ("web_2 web_0", "web_2,web_0*"),
            ("web_3 web_2 web_1 web_0", "web_3,web_2,web_0* and 1 more"),
            ("web_3 web_2 web_1 web_4", "web_3,web_2,web_1 and 1 more"),
        ] {
            let names: Vec<Box<str>> = names.split(' ').map(Into::into).collect();
            let found = resource_names(&names, VmNames::new(Some("web_0"), None));
            assert_eq!(found, expected);
        }
    }
}
