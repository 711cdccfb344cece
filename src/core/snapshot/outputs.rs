//! Counters of what the exporter sends and writes.

use std::collections::BTreeMap;

use super::{ExportCounts, TypeLabel};
use crate::{
    azure::event::{EventType, Impact},
    base::label::label_values,
};

label_values! {
    /// The result of an approval: the closed set of values of the label `result`.
    pub enum ApprovalResult {
        /// IMDS accepted it.
        Approved = "approved",
        /// A dry run would have sent it.
        DryRun = "dry_run",
        /// IMDS refused it, or did not answer.
        Failed = "failed",
    }
}

/// What the Alertmanager pushers did since the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Posts to an Alertmanager.
    pub pushes: u64,
    pub failures: u64,
}

/// Whether each receiver of what is sent accepted the last request, by its URL without secrets. A receiver that was not
/// asked yet is absent.
pub type ReceiverStates = BTreeMap<String, bool>;

/// Counters of all outputs, from zero, also of a disabled feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputCounters {
    pub pushes: PushCounts,
    pub receivers: ReceiverStates,
    pub approvals: BTreeMap<(TypeLabel, ApprovalResult), u64>,
    pub spans: ExportCounts,
    /// `None` if no log records are exported.
    pub log_records: Option<ExportCounts>,
    /// Points and pushes of the metrics, which have no spool; `None` if they are not exported.
    pub metrics: Option<ExportCounts>,
    /// Failed writes of the state file. Those of the spools are in `spans` and `log_records`.
    pub state_write_failures: u64,
    /// Failed writes of the file of `--textfile.path`.
    pub textfile_write_failures: u64,
}

impl Default for OutputCounters {
    fn default() -> Self {
        let is_approvable = |event_type: &EventType| {
            matches!(event_type.spec().impact, Impact::Pause | Impact::Restart)
        };
        let approvals = EventType::KNOWN
            .iter()
            .filter(|event_type| is_approvable(event_type))
            .map(TypeLabel::from)
            .flat_map(|label| ApprovalResult::ALL.map(|result| ((label.clone(), result), 0)));
        Self {
            pushes: PushCounts::default(),
            receivers: ReceiverStates::new(),
            approvals: approvals.collect(),
            spans: ExportCounts::default(),
            log_records: None,
            metrics: None,
            state_write_failures: 0,
            textfile_write_failures: 0,
        }
    }
}
