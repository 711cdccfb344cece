//! The log lines: one for each transition of an event; failures are logged when they change, not for each poll.

use std::{net::TcpListener, path::Path, time::Duration};

use tracing::{info, warn};

use crate::{
    azure::{
        Identity,
        api_version::RequestedVersion,
        document::Anomaly,
        event::{EventScope, Source, resource_name},
    },
    base::{
        log_id,
        text::sanitize,
        time::{Timestamp, format_duration, in_words},
    },
    core::{
        approval::{ApprovalDecision, SkipReason},
        engine::{LogEntry, SavedState},
        lifecycle::{TrackedEvent, Transition, TransitionKind},
        snapshot::{PollFailure, SeriesScope},
    },
    http::{client::proxy, web_config::WebConfig},
    program::config::Config,
};

pub(super) fn starting(config: &Config) {
    let imds = &config.imds;
    info!(
        name: log_id::STARTING,
        version = env!("CARGO_PKG_VERSION"),
        revision = env!("BUILD_REVISION"),
        imds_url = imds.endpoint.base(),
        api_version = &*imds.api_version.name,
        poll_interval = format_duration(config.interval),
        vm_name = imds.vm_name.as_deref().unwrap_or("(from instance metadata)"),
        events_scope = match config.web.exposed.scope {
            SeriesScope::Own => "self",
            SeriesScope::All => "all",
        },
        approvals = %config.approvals,
        alertmanagers = config.alertmanagers.len(),
        "starting"
    );
    log_api_version(&imds.api_version);
    for ignored in config.otlp.iter().flat_map(|settings| &settings.ignored) {
        warn!("{ignored}");
    }
    if config.otlp.is_some() || !config.alertmanagers.is_empty() {
        for (variable, proxy) in proxy::variables() {
            if let Some(proxy) = proxy {
                info!(variable, proxy, "proxy variable is set");
            } else {
                warn!(variable, "variable is not the URL of an HTTP proxy");
            }
        }
    }
    for note in config.web_config.iter().flat_map(WebConfig::notes) {
        warn!("{note}");
    }
}

fn log_api_version(version: &RequestedVersion) {
    if !version.is_documented() {
        warn!(
            api_version = &*version.name,
            treated_as = version.documented.name,
            "api-version not documented: event types and fields assumed as in a documented version"
        );
    }
    let missing = version.documented.missing();
    if !missing.is_empty() {
        warn!(
            api_version = &*version.name,
            missing, "old api-version: event types and fields are missing"
        );
    }
}

pub(super) fn listening(
    listeners: &[TcpListener],
    telemetry_path: &str,
    web_config: Option<&WebConfig>,
) {
    for listener in listeners {
        info!(
            address = address(listener),
            telemetry_path,
            tls = web_config.is_some_and(WebConfig::is_tls),
            password = web_config.is_some_and(WebConfig::has_users),
            "listening"
        );
    }
}

fn address(listener: &TcpListener) -> String {
    let address = listener.local_addr();
    address.map_or_else(|_| String::new(), |it| it.to_string())
}

pub(super) fn simulating(listener: &TcpListener) {
    let address = address(listener);
    info!(
        page = format!("http://{address}/"),
        imds_url = format!("http://{address}"),
        "simulator started"
    );
}

pub(super) fn memory_only() {
    warn!(
        "no state directory (--state.directory or $STATE_DIRECTORY): tracked events are lost when this process ends, so the \
         interruption by a reboot is not measured, and an event that ends meanwhile is not reported as ended"
    );
}

pub(super) fn restored(path: &Path, saved: &SavedState, rebooted: bool) {
    info!(
        path = %path.display(),
        events = saved.events.len(),
        heartbeat = saved.heartbeat_at.rfc3339(),
        rebooted,
        "restored state"
    );
}

pub(super) fn unreadable_state(path: &Path, why: &str) {
    warn!(path = %path.display(), why, "state file unreadable: starting without it");
}

pub(super) fn demo(listeners: &[TcpListener], config: &Config, azure_url: &str) {
    let is_tls = config.web_config.as_ref().is_some_and(WebConfig::is_tls);
    let scheme = if is_tls { "https" } else { "http" };
    for address in listeners.iter().map(address) {
        info!(
            page = format!("{scheme}://{address}/"),
            metrics = format!("{scheme}://{address}/metrics"),
            simulated_azure = format!("{azure_url}/"),
            "demo started: open the page, stop with Ctrl-C"
        );
    }
}

pub(super) fn entry(entry: &LogEntry) {
    match entry {
        LogEntry::Transition(transition) => log_transition(transition),
        LogEntry::Anomaly(anomaly) => log_anomaly(anomaly),
        LogEntry::MoreAnomalies { kind, count } => {
            warn!(
                kind = kind.as_str(),
                count, "document anomaly: more of this kind"
            );
        }
        LogEntry::PollingFailed { failure, pending } => log_polling_failed(failure, *pending),
        LogEntry::PollingRecovered {
            failed_for,
            incarnation,
            pending,
        } => log_polling_succeeded(*failed_for, *incarnation, *pending),
        LogEntry::WarmingUp { until } => info!(
            until = until.rfc3339(),
            "warming up: events may take five minutes to appear"
        ),
        LogEntry::Identified { identity, vm_name } => log_identity(identity, vm_name.as_deref()),
        LogEntry::NameContradiction { identity, vm_name } => warn!(
            name: log_id::VM_NAME_CONTRADICTION,
            vm_name = vm_name.as_deref(),
            metadata_name = identity.name,
            "VM name contradicts instance metadata: events with either name count as own, nothing is approved; correct --vm.name, or omit it"
        ),
        LogEntry::IdentityUnavailable {
            error,
            is_name_known,
        } => log_identity_unavailable(&error.message, *is_name_known),
        LogEntry::ForeignState { vm_id } => {
            warn!(vm_id, "state belongs to another VM: starting without it");
        }
        LogEntry::Approval { approval, tracked } => log_approval(approval, tracked),
        LogEntry::StateWriteFailed { error } => {
            warn!(
                name: log_id::STATE_WRITE_FAILED,
                error,
                "state write failed: continuing in memory, retrying"
            );
        }
        LogEntry::StateWriteStalled => {
            warn!(
                name: log_id::STATE_WRITE_FAILED,
                "state write stalled: continuing in memory, the write is still in progress"
            );
        }
        LogEntry::StateWriteRecovered => {
            info!(name: log_id::STATE_WRITE_RECOVERED, "state write recovered");
        }
    }
}

fn log_polling_succeeded(failed_for: Option<Duration>, incarnation: Option<i64>, pending: usize) {
    let message = match failed_for {
        None => "polling started",
        Some(_) => "polling recovered",
    };
    info!(
        name: log_id::POLLING_RECOVERED,
        document_incarnation = incarnation,
        pending,
        failed_for = failed_for.map(in_words),
        "{message}"
    );
}

fn log_polling_failed(failure: &PollFailure, pending: usize) {
    warn!(
        name: log_id::POLLING_FAILED,
        reason = failure.reason.as_str(),
        error = failure.message,
        since = failure.since.rfc3339(),
        pending,
        "polling failed"
    );
}

fn log_identity(identity: &Identity, vm_name: Option<&str>) {
    info!(
        vm_name,
        name = identity.name,
        computer_name = identity.computer_name,
        vm_id = identity.vm_id,
        vm_scale_set = identity.scale_set,
        vm_size = identity.vm_size,
        location = identity.location,
        "VM identity resolved"
    );
}

fn log_identity_unavailable(error: &str, is_name_known: bool) {
    if is_name_known {
        info!(error, "instance metadata unavailable: retrying");
    } else {
        warn!(
            name: log_id::VM_NAME_UNKNOWN,
            error,
            "VM name unknown: retrying; where there is no instance metadata, set --vm.name"
        );
    }
}

/// Versions of an event whose lines have its texts: an event that changes with each poll must not fill the disk with the
/// names of hundreds of VMs.
const MAX_LINES_WITH_TEXTS: u32 = 30;

/// The VMs that an event names, and its description. `None` in a shortened line, and for a text that the event lacks.
///
/// Texts are not truncated: the log is the longest record of an event. Each line is sanitized when it is written, but
/// logfmt has escaped a value with a space before that, so texts are sanitized here as well.
fn texts(tracked: &TrackedEvent) -> (Option<String>, Option<String>) {
    let versions = tracked.times_changed.saturating_add(tracked.times_ended);
    if versions >= MAX_LINES_WITH_TEXTS {
        return (None, None);
    }
    let names = tracked.event.resources.iter().flatten();
    let names: Vec<_> = names.map(|name| resource_name(name)).collect();
    let description = tracked.event.description_text();
    (
        Some(sanitize(&names.join(",")).into_owned()),
        description.map(|text| sanitize(text).into_owned()),
    )
}

/// Logs a line about an event: fields of its own, then those of the event. The id is one of `log_id`.
macro_rules! event_line {
    ($level:ident, [$($id:ident)?], $message:literal, $tracked:ident, $($name:ident = $value:expr,)*) => {{
        let event = &$tracked.event;
        let (resources, description) = texts($tracked);
        $level!(
            $(name: log_id::$id,)?
            $($name = $value,)*
            event_id = event.id.as_str(),
            event_type = event.event_type.as_str(),
            event_status = event.status.as_str(),
            event_source = event.source.as_ref().map_or("", Source::as_str),
            resources,
            not_before = event.not_before.map(Timestamp::rfc3339),
            duration_seconds = event.duration_seconds,
            description,
            $message
        )
    }};
}

fn log_approval(approval: &ApprovalDecision, tracked: &TrackedEvent) {
    macro_rules! line {
        ($level:ident, $id:ident) => {
            event_line!(
                $level,
                [$id],
                "approval",
                tracked,
                decision = approval.decision(),
                reason = approval.reason(),
                at = approval.at().map(Timestamp::rfc3339),
                detail = approval.message(),
            )
        };
    }
    match approval {
        ApprovalDecision::Failed { .. } | ApprovalDecision::Withheld(SkipReason::GaveUp) => {
            line!(warn, APPROVAL_FAILED);
        }
        ApprovalDecision::Sent { .. } => line!(info, APPROVAL_SENT),
        _ => line!(info, APPROVAL_DECISION),
    }
}

fn log_transition(transition: &Transition) {
    let tracked = &*transition.tracked;
    let event = &tracked.event;
    let (outcome, interruption) = match &transition.kind {
        TransitionKind::Ended(outcome) => (Some(outcome.as_str()), tracked.longest_interruption),
        TransitionKind::Interrupted(interruption) => (None, Some(interruption.length)),
        _ => (None, None),
    };
    let rescheduled_from = match &transition.kind {
        TransitionKind::Rescheduled(rescheduling) => rescheduling.from.map(Timestamp::rfc3339),
        _ => None,
    };
    macro_rules! line {
        ($level:ident $(, $id:ident)?) => {
            event_line!(
                $level, [$($id)?], "scheduled event", tracked,
                transition = transition.kind.as_str(),
                scope = tracked.scope.as_str(),
                first_seen = tracked.first_seen_at.rfc3339(),
                started = tracked.started_at.map(Timestamp::rfc3339),
                rescheduled_from = rescheduled_from,
                outcome = outcome,
                observed_interruption_seconds = interruption.map(|length| length.as_secs_f64()),
                trace_id = format!("{:032x}", u128::from_be_bytes(event.id.trace_id())),
            )
        };
    }
    let is_other = tracked.scope == EventScope::Other;
    match &transition.kind {
        TransitionKind::Amended { was_scope } if is_other && *was_scope != EventScope::Other => {
            line!(info, LEFT_VM);
        }
        TransitionKind::Announced if event.is_advisory() && !is_other => line!(info, ADVISORY),
        _ if is_other || event.is_advisory() => line!(info),
        TransitionKind::Announced
        | TransitionKind::Returned
        | TransitionKind::Amended {
            was_scope: EventScope::Other,
        } => line!(warn, ANNOUNCED),
        TransitionKind::Rescheduled(_) => line!(warn, RESCHEDULED),
        TransitionKind::StatusChanged(_) | TransitionKind::Amended { .. } => line!(warn, CHANGED),
        TransitionKind::Started => line!(warn, STARTED),
        TransitionKind::Interrupted(_) => line!(warn, INTERRUPTED),
        TransitionKind::Approved | TransitionKind::ApprovedElsewhere => line!(warn, APPROVED),
        TransitionKind::Ended(_) => line!(warn, ENDED),
    }
}

pub(crate) fn log_anomaly(anomaly: &Anomaly) {
    warn!(
        kind = anomaly.kind.as_str(),
        detail = anomaly.detail,
        "document anomaly"
    );
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::Subscriber;
    use tracing_subscriber::{
        Layer,
        layer::{Context, SubscriberExt},
    };

    use super::*;
    use crate::azure::event::Status;
    use crate::core::assessment::fixtures::{at, tracked};
    use crate::core::lifecycle::{Outcome, Rescheduling};

    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<&'static str>>>);

    impl<S: Subscriber> Layer<S> for Names {
        fn on_event(&self, event: &tracing::Event<'_>, _context: Context<'_, S>) {
            self.0.lock().unwrap().push(event.metadata().name());
        }
    }

    /// The constant of `log_id` that the line of this transition names; empty without one.
    fn name(kind: TransitionKind, tracked: TrackedEvent) -> &'static str {
        let (names, tracked) = (Names::default(), Arc::new(tracked));
        let transition = Transition {
            at: at(0),
            kind,
            tracked,
        };
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(names.clone()),
            || entry(&LogEntry::Transition(transition)),
        );
        let names = names.0.lock().unwrap();
        assert_eq!(names.len(), 1);
        let known = log_id::ALL.iter().find(|(_, known, _)| *known == names[0]);
        known.map_or("", |(_, known, _)| known)
    }

    #[test]
    fn transitions_of_events_of_this_vm_have_ids() {
        let event = |scope| {
            let mut event = tracked("Reboot", "Platform", Some(900));
            event.scope = scope;
            event
        };
        let amended = |was_scope| TransitionKind::Amended { was_scope };
        let rescheduled = TransitionKind::Rescheduled(Rescheduling {
            at: at(0),
            from: None,
            to: at(900),
        });
        let (own, other) = (EventScope::Own, EventScope::Other);
        for (kind, scope, expected) in [
            (TransitionKind::Announced, own, log_id::ANNOUNCED),
            (
                TransitionKind::Announced,
                EventScope::Unknown,
                log_id::ANNOUNCED,
            ),
            (TransitionKind::Announced, other, ""),
            (TransitionKind::Returned, own, log_id::ANNOUNCED),
            (amended(other), own, log_id::ANNOUNCED),
            (amended(own), own, log_id::CHANGED),
            (amended(own), other, log_id::LEFT_VM),
            (amended(other), other, ""),
            (rescheduled, own, log_id::RESCHEDULED),
            (
                TransitionKind::StatusChanged(Status::Started),
                own,
                log_id::CHANGED,
            ),
            (TransitionKind::Started, own, log_id::STARTED),
            (TransitionKind::Started, other, ""),
            (TransitionKind::Approved, own, log_id::APPROVED),
            (TransitionKind::ApprovedElsewhere, own, log_id::APPROVED),
            (
                TransitionKind::Ended(Outcome::Completed),
                own,
                log_id::ENDED,
            ),
        ] {
            assert_eq!(
                name(kind.clone(), event(scope)),
                expected,
                "{kind:?} {scope:?}"
            );
        }
    }

    #[test]
    fn only_the_first_line_of_an_advisory_has_the_id_of_advisories() {
        let event = || tracked("SpotRebalanceRecommendation", "Platform", None);
        assert_eq!(name(TransitionKind::Announced, event()), log_id::ADVISORY);
        let ended = TransitionKind::Ended(Outcome::Unknown);
        assert_eq!(name(ended, event()), "");
    }
    #[test]
    fn lines_of_an_event_that_flaps_are_short() {
        let mut event = tracked("Freeze", "Platform", None);
        for (changed, ended, has_texts) in [(0, 29, true), (15, 15, false), (3_600, 0, false)] {
            (event.times_changed, event.times_ended) = (changed, ended);
            assert_eq!(texts(&event).0.is_some(), has_texts);
        }
    }
}
