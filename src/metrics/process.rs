//! The standard figures of this process, read by `metrics-process` on every system that it knows.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{
    catalog,
    family::{self, begin},
};

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let process = metrics_process::collector::collect();
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    if let Some(seconds) = process.cpu_seconds_total {
        begin(encoder, &catalog::PROCESS_CPU)?.fractional_counter(&[], seconds)?;
    }
    family::single(encoder, &catalog::PROCESS_MAX_FDS, whole(process.max_fds))?;
    family::single(encoder, &catalog::PROCESS_OPEN_FDS, whole(process.open_fds))?;
    family::single(
        encoder,
        &catalog::PROCESS_RESIDENT_MEMORY,
        whole(process.resident_memory_bytes),
    )?;
    family::single(
        encoder,
        &catalog::PROCESS_START_TIME,
        whole(process.start_time_seconds),
    )?;
    family::single(encoder, &catalog::PROCESS_THREADS, whole(process.threads))?;
    family::single(
        encoder,
        &catalog::PROCESS_VIRTUAL_MEMORY,
        whole(process.virtual_memory_bytes),
    )?;
    family::single(
        encoder,
        &catalog::PROCESS_VIRTUAL_MEMORY_MAX,
        whole(process.virtual_memory_max_bytes),
    )
}
