//! Log lines of the Windows service in the event log, under Application, with the IDs of `log_id`.
//!
//! The messages are those of `EventCreate.exe`, a part of Windows, which consist of the text alone. So events can be
//! read after the exporter is removed, and its file needs no message table.

use std::io;

use tracing::Level;
use windows_registry::LOCAL_MACHINE;
use winsafe::{HEVENTLOG, co};

use crate::base::{log_id, text::event_log_text};

const SOURCE: &str = "azure-scheduled-events-exporter";

/// The IDs of lines that have none of their own, by their level.
const INFO_ID: u32 = 1;
const WARN_ID: u32 = 2;
const ERROR_ID: u32 = 3;

const SOURCES: &str = r"SYSTEM\CurrentControlSet\Services\EventLog\Application";

/// Writes a line of `info` and above; other lines are ignored.
///
/// The source is opened for each line, which works again after the event log service was stopped.
pub(crate) fn write(level: Level, name: &str, line: &[u8]) -> io::Result<()> {
    let (kind, level_id) = match level {
        Level::ERROR => (co::EVENTLOG::ERROR_TYPE, ERROR_ID),
        Level::WARN => (co::EVENTLOG::WARNING_TYPE, WARN_ID),
        Level::INFO => (co::EVENTLOG::INFORMATION_TYPE, INFO_ID),
        _ => return Ok(()),
    };
    let own_id = log_id::ALL.iter().find(|(_, known, _)| *known == name);
    let id = own_id.map_or(level_id, |(id, ..)| *id);
    let text = event_log_text(&String::from_utf8_lossy(line));
    let source = HEVENTLOG::RegisterEventSource(None, SOURCE).map_err(io_error)?;
    source
        .ReportEvent(kind, 0, id, None, &[text], &[])
        .map_err(io_error)
}

fn io_error(error: co::ERROR) -> io::Error {
    io::Error::from_raw_os_error(error.raw().cast_signed())
}

/// Without a registered source, the event viewer says that it has no description for each event.
pub(crate) fn register() -> io::Result<()> {
    let key = LOCAL_MACHINE.create(format!(r"{SOURCES}\{SOURCE}"))?;
    key.set_expand_string("EventMessageFile", r"%SystemRoot%\System32\EventCreate.exe")?;
    // Errors, warnings and information.
    key.set_u32("TypesSupported", 7)?;
    Ok(())
}

pub(crate) fn deregister() -> io::Result<()> {
    Ok(LOCAL_MACHINE.create(SOURCES)?.remove_tree(SOURCE)?)
}
