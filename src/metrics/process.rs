//! The standard `process_*` metrics.

use std::fmt;

use metrics_process::collector::{Metrics, collect};

use super::{
    catalog,
    family::{self, Backend},
};

pub(super) fn encode(backend: &mut Backend<'_>) -> fmt::Result {
    let Metrics {
        cpu_seconds_total,
        open_fds,
        max_fds,
        virtual_memory_bytes,
        virtual_memory_max_bytes,
        resident_memory_bytes,
        start_time_seconds,
        threads,
    } = collect();
    family::optional_number(backend, &catalog::PROCESS_CPU, cpu_seconds_total)?;
    for (metric, value) in [
        (&catalog::PROCESS_MAX_FDS, max_fds),
        (&catalog::PROCESS_OPEN_FDS, open_fds),
        (&catalog::PROCESS_RESIDENT_MEMORY, resident_memory_bytes),
        (&catalog::PROCESS_START_TIME, start_time_seconds),
        (&catalog::PROCESS_THREADS, threads),
        (&catalog::PROCESS_VIRTUAL_MEMORY, virtual_memory_bytes),
        (
            &catalog::PROCESS_VIRTUAL_MEMORY_MAX,
            virtual_memory_max_bytes,
        ),
    ] {
        family::optional_number(backend, metric, value.map(|value| value as f64))?;
    }
    Ok(())
}
