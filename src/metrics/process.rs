//! The standard `process_*` metrics.

use std::fmt;

use metrics_process::collector::Metrics;

#[cfg(target_os = "linux")]
use self::linux::collect;
use super::{
    catalog,
    family::{self, Backend, begin},
};
#[cfg(not(target_os = "linux"))]
use metrics_process::collector::collect;

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
    if let Some(seconds) = cpu_seconds_total {
        begin(backend, &catalog::PROCESS_CPU)?.fractional_counter(&[], seconds)?;
    }
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
        family::optional_gauge(backend, metric, value.map(|value| value as f64))?;
    }
    Ok(())
}

/// What `metrics_process` collects, with half of its system calls: it opens `/proc/self` each time, and reads all
/// limits as text for two of them.
#[cfg(target_os = "linux")]
mod linux {
    use std::sync::OnceLock;

    use metrics_process::collector::Metrics;
    use procfs::{WithCurrentSystemInfo, process::Process, ticks_per_second};
    use rustix::process::{Resource, getrlimit};

    /// Of this process; it stays open.
    static DIRECTORY: OnceLock<Process> = OnceLock::new();

    pub(super) fn collect() -> Metrics {
        let mut metrics = Metrics {
            max_fds: Some(soft_limit(Resource::Nofile)),
            virtual_memory_max_bytes: Some(soft_limit(Resource::As)),
            ..Metrics::default()
        };
        let Some(process) = this_process() else {
            return metrics;
        };
        metrics.open_fds = process.fd_count().ok().map(|count| count as u64);
        if let Ok(stat) = process.stat() {
            let ticks = ticks_per_second();
            let boot_time = procfs::boot_time_secs().ok();
            metrics.start_time_seconds = boot_time.map(|boot| boot + stat.starttime / ticks);
            metrics.cpu_seconds_total = Some((stat.utime + stat.stime) as f64 / ticks as f64);
            metrics.resident_memory_bytes = Some(stat.rss_bytes().get());
            metrics.virtual_memory_bytes = Some(stat.vsize);
            metrics.threads = u64::try_from(stat.num_threads).ok();
        }
        metrics
    }

    fn this_process() -> Option<&'static Process> {
        match DIRECTORY.get() {
            Some(process) => Some(process),
            // A failure is not kept: the process may have had no free file descriptor.
            None => Process::myself()
                .ok()
                .map(|process| DIRECTORY.get_or_init(|| process)),
        }
    }

    /// 0 for no limit.
    fn soft_limit(resource: Resource) -> u64 {
        getrlimit(resource).current.unwrap_or(0)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn values_are_those_of_metrics_process() {
            let expected = metrics_process::collector::collect();
            let actual = collect();
            assert_eq!(actual.max_fds, expected.max_fds);
            assert_eq!(
                actual.virtual_memory_max_bytes,
                expected.virtual_memory_max_bytes
            );
            assert_eq!(actual.start_time_seconds, expected.start_time_seconds);
            assert!(actual.cpu_seconds_total >= expected.cpu_seconds_total);
            // Other tests run in this process at the same time.
            for (actual, expected) in [
                (actual.open_fds, expected.open_fds),
                (actual.threads, expected.threads),
                (actual.resident_memory_bytes, expected.resident_memory_bytes),
                (actual.virtual_memory_bytes, expected.virtual_memory_bytes),
            ] {
                let (Some(actual), Some(expected)) = (actual, expected) else {
                    panic!("{actual:?} {expected:?}");
                };
                assert!(actual < 100 * expected && expected < 100 * actual);
            }
        }
    }
}
