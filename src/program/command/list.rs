//! `list`: prints the pending events as a table, or as JSON with Azure's member names.

use std::{fmt::Write as _, time::Duration};

use serde::Serialize;
use tracing::info;

use super::{CommandError, query};
use crate::{
    azure::{
        azure_json::{self, AzureForm},
        document::Document,
        event::{Event, Source, is_same_vm, resource_name},
        imds::Client,
    },
    base::{
        text::excerpt,
        time::{Clock, Timestamp, in_words},
    },
    program::{app::Error, cli::Output, config::ImdsSettings},
};

/// Reads the pending events once.
///
/// # Errors
/// When it does not answer with a document.
pub(super) async fn run(
    settings: &ImdsSettings,
    output: Output,
    clock: Clock,
) -> Result<String, CommandError> {
    let mut client = Client::new(&settings.endpoint).map_err(Error::from)?;
    let vm_name = match output {
        Output::Table => query::vm_name(&mut client, settings, clock).await,
        Output::Json => None,
    };
    let document = query::read(&mut client, settings.first_timeout, clock).await?;
    let now = clock.now().wall;
    match output {
        Output::Table => Ok(query::no_events_yet(&document, now)
            .unwrap_or_else(|| table(&document, vm_name.as_deref(), now))),
        Output::Json => {
            let until = query::warming_up_until(&document, now);
            if let Some(until) = until {
                info!(
                    until = until.rfc3339(),
                    "no events yet: they may take five minutes to appear if no client has polled for a day"
                );
            }
            azure_json::to_text(&Listing {
                document_incarnation: document.incarnation,
                unreadable_entries: document.unreadable.entries,
                warming_up: until.is_some(),
                warming_up_until: until.map(Timestamp::rfc3339_millis),
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
    /// As in `/api/v1/events`.
    warming_up: bool,
    warming_up_until: Option<String>,
    events: Vec<AzureForm<'a>>,
}

const COLUMNS: [&str; 9] = [
    "TYPE",
    "STATUS",
    "NOT BEFORE (UTC)",
    "IN",
    "DURATION",
    "SOURCE",
    "RESOURCES",
    "DESCRIPTION",
    "EVENT ID",
];

/// Characters of a cell. An event id has at most 256 bytes, and formatting panics on columns of 65,536 and more.
const MAX_CELL: usize = 256;
/// In the column of resources.
const MAX_NAMES: usize = 3;

/// A table with aligned columns. The name of this VM is marked with `*`.
fn table(document: &Document, vm_name: Option<&str>, now: Timestamp) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(document.events.iter().map(|event| row(event, vm_name, now)));
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
    if !document.is_complete() {
        let unreadable = document.unreadable.entries;
        writeln!(table, "{unreadable} more could not be parsed, see the log.").ok();
    }
    table
}

fn row(event: &Event, vm_name: Option<&str>, now: Timestamp) -> [String; COLUMNS.len()] {
    let wait = event.deadline().map(|at| {
        if at >= now {
            in_words(at.saturating_since(now))
        } else {
            format!("overdue {}", in_words(now.saturating_since(at)))
        }
    });
    let duration = event.duration_seconds.map(Duration::from_secs);
    let resources = event.resources.as_deref();
    let source = event.source.as_ref();
    [
        event.event_type.as_str().to_owned(),
        event.status.as_str().to_owned(),
        event
            .not_before
            .map_or_else(|| "-".to_owned(), Timestamp::rfc3339),
        wait.unwrap_or_else(|| "-".to_owned()),
        duration.map_or_else(|| "unknown".to_owned(), in_words),
        source.map_or(Source::NOT_GIVEN, Source::as_str).to_owned(),
        resources.map_or_else(
            || "unknown".to_owned(),
            |names| resource_names(names, vm_name),
        ),
        event.description_text().unwrap_or("-").to_owned(),
        event.id.as_str().to_owned(),
    ]
    .map(|cell| excerpt(&cell, MAX_CELL))
}

/// At most [`MAX_NAMES`], with the name of this VM first.
fn resource_names(names: &[Box<str>], vm_name: Option<&str>) -> String {
    let is_own = |name: &str| vm_name.is_some_and(|own| is_same_vm(name, own));
    let own = names.iter().filter(|name| is_own(name));
    let own = own.map(|name| format!("{}*", resource_name(name)));
    let others = names.iter().filter(|name| !is_own(name));
    let others = others.map(|name| resource_name(name).to_owned());
    let shown: Vec<_> = own.chain(others).take(MAX_NAMES).collect();
    let shown = shown.join(",");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
