//! What the log says: one line for each thing that happened to an event, and failures when they change, not per poll.

use std::{net::TcpListener, path::Path, time::Duration};

use tracing::{info, warn};

use crate::{
    config::Config,
    document::{Anomaly, AnomalyKind},
    event::{Event, EventScope, Source, resource_name},
    lifecycle::{Transition, TransitionKind},
    snapshot::{Failure, Health, Identity, SeriesScope},
    state::Saved,
    text::printable,
    time::{Timestamp, in_words},
};

/// What will be done, before any of it is.
pub(super) fn starting(settings: &Config) {
    let imds = &settings.imds;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        revision = env!("BUILD_REVISION"),
        imds_url = imds.endpoint.base(),
        api_version = imds.api_version.name,
        poll_interval = ?settings.interval,
        vm_name = imds.vm_name.as_deref().unwrap_or("(asked of instance metadata)"),
        events_scope = match settings.web.exposed.scope {
            SeriesScope::Own => "self",
            SeriesScope::All => "all",
        },
        approvals = settings.approvals.in_words(),
        alertmanagers = settings.alertmanagers.len(),
        "starting"
    );
    let missing = imds.api_version.missing();
    if !missing.is_empty() {
        warn!(
            api_version = imds.api_version.name,
            missing, "old api-version: event types and fields are missing"
        );
    }
}

pub(super) fn listening(listener: &TcpListener, telemetry_path: &str) {
    let address = listener
        .local_addr()
        .map(|address| address.to_string())
        .unwrap_or_default();
    info!(address, telemetry_path, "listening");
}

pub(super) fn simulating(listener: &TcpListener) {
    let address = listener
        .local_addr()
        .map(|address| address.to_string())
        .unwrap_or_default();
    info!(
        page = format!("http://{address}/"),
        imds_url = format!("http://{address}"),
        "simulating Azure"
    );
}

/// Said once at the start: what running without a state directory costs.
pub(super) fn memory_only() {
    warn!(
        "no state directory (--state.directory or $STATE_DIRECTORY): what is known of an event is lost when this process \
         ends, so a reboot is not measured and an event that ends meanwhile is never reported as ended"
    );
}

pub(super) fn restored(path: &Path, saved: &Saved, rebooted: bool) {
    info!(
        path = %path.display(),
        events = saved.events.len(),
        heartbeat = saved.heartbeat_at.rfc3339(),
        rebooted,
        "going on where an earlier process stopped"
    );
}

pub(super) fn unreadable_state(path: &Path, why: &str, kept_as: Option<&Path>) {
    let kept_as = kept_as.map_or_else(String::new, |path| path.display().to_string());
    warn!(path = %path.display(), why, kept_as, "the state file cannot be read: starting without it");
}

pub(super) fn foreign_state(vm_id: &str) {
    warn!(
        vm_id,
        "the state was written on another VM (a cloned disk?): starting without it"
    );
}

pub(super) fn state_set_aside(kept_as: &std::io::Result<std::path::PathBuf>) {
    match kept_as {
        Ok(path) => info!(kept_as = %path.display(), "the other VM's state is kept"),
        Err(error) => warn!(%error, "the other VM's state could not be kept under another name"),
    }
}

pub(super) fn state_not_kept(path: &Path, error: &std::io::Error) {
    warn!(path = %path.display(), %error, "the state cannot be written: going on in memory, and trying again");
}

pub(super) fn state_kept_again(path: &Path) {
    info!(path = %path.display(), "the state is written again");
}

pub(super) fn slow_spool(after: Duration) {
    warn!(
        ?after,
        "the disk of the spool is slow: polling does not wait for it, the spans are still being written"
    );
}

/// The only thing that a newcomer has to read.
pub(super) fn demo(listeners: &[TcpListener], azure_url: &str) {
    for address in listeners
        .iter()
        .filter_map(|listener| listener.local_addr().ok())
    {
        info!(
            page = format!("http://{address}/"),
            metrics = format!("http://{address}/metrics"),
            simulated_azure = format!("{azure_url}/"),
            "demo: open the page; end with Ctrl-C"
        );
    }
}

/// The name is still unknown; events are shown with the scope `unknown` meanwhile.
pub(super) fn unidentified(error: &str) {
    warn!(
        error,
        "this VM's own name is not known yet: asking again every few seconds; --vm.name gives it by hand"
    );
}

/// The VMs that an event names, in one word.
pub(super) fn resources(event: &Event) -> String {
    let names = event.resources.iter().flatten();
    let names: Vec<_> = names.map(|name| resource_name(name)).collect();
    names.join(",")
}

/// One line with all that is known of the event.
pub(super) fn transition(transition: &Transition) {
    let tracked = &transition.tracked;
    let event = &tracked.event;
    let (outcome, interruption) = match &transition.kind {
        TransitionKind::Ended(outcome) => (Some(outcome.as_str()), tracked.observed_interruption()),
        TransitionKind::Interrupted(interruption) => (None, Some(interruption.length)),
        _ => (None, None),
    };
    let rescheduled_from = match &transition.kind {
        TransitionKind::Rescheduled(rescheduling) => rescheduling.from.map(Timestamp::rfc3339),
        _ => None,
    };
    macro_rules! line {
        ($level:ident) => {
            $level!(
                what = transition.kind.as_str(),
                event_id = event.id.as_str(),
                event_type = event.event_type.as_str(),
                event_status = event.status.as_str(),
                event_source = event.source.as_ref().map_or("", Source::as_str),
                scope = tracked.scope.as_str(),
                resources = shown(&resources(event)),
                not_before = event.not_before.map(Timestamp::rfc3339),
                duration_seconds = event.duration_seconds,
                description = event.description.as_deref().map(shown),
                first_seen = tracked.first_seen_at.rfc3339(),
                started = tracked.started_at.map(Timestamp::rfc3339),
                rescheduled_from,
                outcome,
                observed_interruption_seconds = interruption.map(|length| length.as_secs_f64()),
                trace_id = format!("{:032x}", u128::from_be_bytes(event.id.trace_id())),
                "scheduled event"
            )
        };
    }
    if tracked.scope == EventScope::Other {
        line!(info);
    } else {
        line!(warn);
    }
}

/// Foreign text on a line, however long it is: what is logged of an event is all that will be left of it.
fn shown(text: &str) -> String {
    text.chars().map(printable).collect()
}

pub(super) fn anomaly(anomaly: &Anomaly) {
    warn!(
        kind = anomaly.kind.as_str(),
        detail = anomaly.detail,
        "odd document"
    );
}

/// Of a document with so many that not each has a line.
pub(super) fn more_anomalies(kind: AnomalyKind, count: u64) {
    warn!(
        kind = kind.as_str(),
        count, "odd document: more of this kind"
    );
}

pub(super) fn identified(identity: &Identity, vm_name: &str) {
    info!(
        vm_name = vm_name,
        name = identity.name,
        vm_id = identity.vm_id,
        vm_scale_set = identity.scale_set,
        vm_size = identity.vm_size,
        location = identity.location,
        "this VM is known"
    );
}

pub(super) fn failing(health: &Health, pending: usize) {
    if let Some(failure) = &health.failure {
        warn!(
            reason = failure.reason.as_str(),
            error = failure.message,
            since = failure.since.rfc3339(),
            pending_kept = pending,
            "polling fails"
        );
    }
}

pub(super) fn succeeding(
    ended: Option<&Failure>,
    incarnation: Option<i64>,
    pending: usize,
    now: Timestamp,
) {
    let after = ended.map(|failure| in_words(now.saturating_since(failure.since)));
    info!(
        document_incarnation = incarnation,
        pending,
        failed_for = after,
        "polling succeeds"
    );
}
