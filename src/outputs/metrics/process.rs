//! The standard `process_*` metrics.

use metrics_process::collector::{Metrics, collect};

use super::{catalog, family::Family};

pub(super) fn families<'a>() -> impl Iterator<Item = Family<'a>> {
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
    let cpu = Family::single(&catalog::PROCESS_CPU, cpu_seconds_total);
    let gauges = [
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
    ];
    let gauges = gauges.map(|(metric, value)| Family::single(metric, value.map(|it| it as f64)));
    [cpu].into_iter().chain(gauges)
}
