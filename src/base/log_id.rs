//! The IDs of log lines in the event log of Windows: an operator's script or query waits for an ID.
//!
//! A line names its constant as its `name`. Lines without one have the ID of their level. IDs keep their meaning
//! between versions. `docs/reference.md` has the same table.

/// Each ID once, in the order of the table in `docs/reference.md`.
macro_rules! log_ids {
    ($($id:literal $name:ident $meaning:literal)*) => {
        $(#[doc = $meaning] pub(crate) const $name: &str = stringify!($name);)*

        /// ID, `name` of the line, meaning. `EventCreate.exe` has messages with the numbers 1 to 1000.
        #[cfg(any(windows, test))]
        pub(crate) const ALL: &[(u32, &str, &str)] = &[$(($id, $name, $meaning)),*];
    };
}

log_ids! {
    10 STARTING "the exporter starts"
    11 SHUTTING_DOWN "it stops: the service or Windows is stopped"
    100 ANNOUNCED "an event of this VM is new, is back after its end, or names this VM from now on"
    101 RESCHEDULED "its NotBefore changed, or was given for the first time"
    102 CHANGED "its type, status, resources, duration, description or source changed"
    103 STARTED "it has started"
    104 INTERRUPTED "the end of a measured interruption of this VM"
    105 ENDED "it ended; `outcome` says how"
    106 LEFT_VM "it does not name this VM, or no longer; its later changes have the ID 1"
    107 ADVISORY "an advisory, such as a Spot rebalance recommendation, is new; its later changes have the ID 1"
    108 UNANNOUNCED "this VM was interrupted for a second or more, and no event of it was pending"
    110 APPROVED "the event is approved, by this exporter or elsewhere"
    111 APPROVAL_SENT "the exporter sent its approval"
    112 APPROVAL_FAILED "Azure refused the approval or did not answer; with `reason=gave_up` it is not sent again"
    113 APPROVAL_DECISION "any other decision of the `--approve.*` flags, such as `draining`"
    200 POLLING_FAILED "polls of IMDS fail, or fail for another reason"
    201 POLLING_RECOVERED "the first document of this process, or after a failure"
    202 VM_NAME_UNKNOWN "instance metadata cannot be read, and `--vm.name` is not set: no event is known to be one of this VM"
    203 VM_NAME_CONTRADICTION "instance metadata have another name than `--vm.name`: nothing is approved"
    204 VM_NAME_UNMATCHED "events name other VMs only, and instance metadata do not name this VM: `--vm.name` may be wrong"
    210 STATE_WRITE_FAILED "the state file cannot be written, or a write hangs"
    211 STATE_WRITE_RECOVERED "the state file is written again"
    220 EXPORT_FAILED "exports to the collector fail, or fail for another reason"
    221 EXPORT_RECOVERED "they succeed again"
    230 ALERT_PUSH_FAILED "pushes to an Alertmanager fail"
    231 ALERTS_PUSHED "new or changed alerts, or the first ones after a failure, were pushed to an Alertmanager"
    232 ALERTMANAGER_NOT_REACHED "an Alertmanager does not answer when it is asked for its status at the start"
    240 WEB_CONFIG_INVALID "the file of `--web.config.file` or its certificates became invalid: requests are refused"
    241 WEB_CONFIG_VALID "they are valid again"
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn ids_are_distinct_and_in_the_message_file() {
        assert!(ALL.is_sorted_by(|a, b| a.0 < b.0), "{ALL:?}");
        // 1 to 3 are the levels.
        assert!(ALL.iter().all(|(id, ..)| (4..=1000).contains(id)));
    }

    #[test]
    fn page_has_the_ids_and_their_meanings() {
        let page = include_str!("../../docs/reference.md");
        let documented = page.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
            let id = cells.next()?.parse().ok()?;
            Some((id, cells.next()?)).filter(|(id, _)| *id > 3)
        });
        let table = ALL.iter().map(|(id, _, meaning)| (*id, *meaning));
        assert_eq!(
            documented.collect::<Vec<(u32, _)>>(),
            table.collect::<Vec<_>>()
        );
    }
}
