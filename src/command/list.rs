//! `list`: prints the pending events as a table, or as JSON with Azure's member names.

use std::fmt::Write as _;

use serde::Serialize;
use tracing::info;

use super::query;
use crate::{
    app::Error,
    azure_json::{self, AzureForm},
    cli::Output,
    config::ImdsSettings,
    document::Document,
    event::{Event, EventScope, Source, resource_name},
    imds::Client,
    lifecycle::WarmUp,
    text::excerpt,
    time::{Clock, Timestamp, in_words},
};

/// Reads the pending events once.
///
/// # Errors
/// When it does not answer with a document.
pub(super) async fn run(
    settings: &ImdsSettings,
    output: Output,
    clock: Clock,
) -> Result<String, Error> {
    let mut client = Client::new(&settings.endpoint)?;
    let vm_name = match output {
        Output::Table => query::vm_name(&mut client, settings, clock).await,
        Output::Json => None,
    };
    let document = query::read(&mut client, settings.first_timeout, clock).await?;
    let now = clock.now().wall;
    if output == Output::Json && document.has_no_events() {
        // This request may have enabled the feature.
        info!(
            until = now.after(WarmUp::TIME).rfc3339(),
            "no events yet: they may take five minutes to appear if no client has polled for a day"
        );
    }
    Ok(match output {
        Output::Json => json(&document, now).map_err(|error| Error::Task(error.to_string()))?,
        Output::Table => table(&document, vm_name.as_deref(), now),
    })
}

/// # Errors
/// Never in practice: every value of a document can be serialised.
fn json(document: &Document, now: Timestamp) -> serde_json::Result<String> {
    let events = document.events.iter().map(AzureForm).collect();
    let warming_up_until = document.has_no_events().then(|| now.after(WarmUp::TIME));
    let listing = Listing {
        document_incarnation: document.incarnation,
        unreadable_entries: document.unreadable.entries,
        warming_up: warming_up_until.is_some(),
        warming_up_until: warming_up_until.map(Timestamp::rfc3339_millis),
        events,
    };
    azure_json::to_text(&listing)
}

#[derive(Serialize)]
struct Listing<'a> {
    document_incarnation: Option<i64>,
    /// Entries of `Events` that could not be read; each may be an event.
    unreadable_entries: usize,
    /// As in `/api/v1/events`, for a document without events: this request may have enabled Scheduled Events.
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

/// A table with aligned columns, or a sentence if no event is pending. The name of this VM is marked with `*`.
fn table(document: &Document, vm_name: Option<&str>, now: Timestamp) -> String {
    if document.has_no_events() {
        let until = now.after(WarmUp::TIME).time_of_day();
        return format!(
            "No events yet; they may take until {until} to appear if no client has polled Scheduled Events here for a day.\n"
        );
    }
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(document.events.iter().map(|event| row(event, vm_name, now)));
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<_> = (0..COLUMNS.len())
        .map(|column| width(column).unwrap_or_default())
        .collect();
    let mut table = String::new();
    for row in &rows {
        let cells: Vec<_> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        writeln!(table, "{}", cells.join("  ").trim_end()).ok();
    }
    if !document.is_complete() {
        let unreadable = document.unreadable.entries;
        writeln!(table, "{unreadable} more could not be parsed, see the log.").ok();
    }
    table
}

fn row(event: &Event, vm_name: Option<&str>, now: Timestamp) -> [String; 9] {
    let wait = event.deadline().map(|at| {
        if at >= now {
            in_words(at.saturating_since(now))
        } else {
            format!("overdue {}", in_words(now.saturating_since(at)))
        }
    });
    let duration = event
        .duration_seconds
        .map(|seconds| in_words(std::time::Duration::from_secs(seconds)));
    [
        event.event_type.as_str().to_owned(),
        event.status.as_str().to_owned(),
        event
            .not_before
            .map_or_else(|| "-".to_owned(), Timestamp::rfc3339),
        wait.unwrap_or_else(|| "-".to_owned()),
        duration.unwrap_or_else(|| "unknown".to_owned()),
        event
            .source
            .as_ref()
            .map_or(Source::NOT_GIVEN, Source::as_str)
            .to_owned(),
        event
            .resources
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), |names| resources(names, vm_name)),
        event.description_text().unwrap_or("-").to_owned(),
        event.id.as_str().to_owned(),
    ]
    .map(|cell| excerpt(&cell, MAX_CELL))
}

/// At most three names, with the name of this VM first.
fn resources(names: &[Box<str>], vm_name: Option<&str>) -> String {
    const MAX_NAMES: usize = 3;
    let is_own =
        |name: &str| crate::event::scope_of(Some(&[name.into()]), vm_name) == EventScope::Own;
    let (own, others): (Vec<&str>, Vec<&str>) = names
        .iter()
        .map(AsRef::as_ref)
        .partition(|name| is_own(name));
    let own = own
        .into_iter()
        .map(|name| format!("{}*", resource_name(name)));
    let all: Vec<_> = own
        .chain(
            others
                .into_iter()
                .map(|name| resource_name(name).to_owned()),
        )
        .collect();
    let shown = all
        .iter()
        .take(MAX_NAMES)
        .cloned()
        .collect::<Vec<_>>()
        .join(",");
    if all.len() > MAX_NAMES {
        format!("{shown} and {} more", all.len() - MAX_NAMES)
    } else {
        shown
    }
}
