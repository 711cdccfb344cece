//! The standard `process_*` metrics, read by `metrics-process`.

use std::fmt;

use super::{
    catalog,
    family::{self, Backend, begin},
};

pub(super) fn encode(backend: &mut Backend<'_>) -> fmt::Result {
    let process = metrics_process::collector::collect();
    let as_f64 = |value: Option<u64>| value.map(|value| value as f64);
    if let Some(seconds) = process.cpu_seconds_total {
        begin(backend, &catalog::PROCESS_CPU)?.fractional_counter(&[], seconds)?;
    }
    family::optional_gauge(backend, &catalog::PROCESS_MAX_FDS, as_f64(process.max_fds))?;
    family::optional_gauge(
        backend,
        &catalog::PROCESS_OPEN_FDS,
        as_f64(process.open_fds),
    )?;
    family::optional_gauge(
        backend,
        &catalog::PROCESS_RESIDENT_MEMORY,
        as_f64(process.resident_memory_bytes),
    )?;
    family::optional_gauge(
        backend,
        &catalog::PROCESS_START_TIME,
        as_f64(process.start_time_seconds),
    )?;
    family::optional_gauge(backend, &catalog::PROCESS_THREADS, as_f64(process.threads))?;
    family::optional_gauge(
        backend,
        &catalog::PROCESS_VIRTUAL_MEMORY,
        as_f64(process.virtual_memory_bytes),
    )?;
    family::optional_gauge(
        backend,
        &catalog::PROCESS_VIRTUAL_MEMORY_MAX,
        as_f64(process.virtual_memory_max_bytes),
    )
}
