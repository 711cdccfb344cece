//! The inputs that end a request to IMDS: the document and the identity.

use std::{sync::Arc, time::Duration};

use tracing::{info, warn};

use super::{Effect, Engine, log::log_transition};
use crate::{
    azure::{
        Identity, RequestError,
        document::{Anomalies, Answer, Document},
        event::{EventScope, VmNames},
    },
    base::{
        log_id,
        time::{Moment, in_words},
    },
    core::lifecycle::{PollFailure, Transition, WARM_UP},
};

/// The restored state counts as that of this VM after this time without an answer of instance metadata.
const OWNER_TIMEOUT: Duration = WARM_UP;

impl Engine {
    pub(super) fn polled(
        &mut self,
        result: Result<Answer, RequestError>,
        took: Duration,
        now: Moment,
    ) {
        let reason = result.as_ref().err().map(|error| error.reason);
        self.requests.count(took, reason);
        let runs_for = now.monotonic - self.started_at;
        if runs_for >= OWNER_TIMEOUT && self.journal.ownership.is_doubtful {
            Arc::make_mut(&mut self.journal).ownership.is_doubtful = false;
        }
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => return self.poll_failed(error, now),
        };
        let poll = &mut self.tracker.poll;
        let is_first = poll.last_success.is_none();
        let ended_failure = poll.failure.take();
        // This document may begin a warm-up, in which it ends less.
        let incarnation = match &answer {
            Answer::Document { document, .. } => document.incarnation,
            Answer::Unchanged => None,
        };
        let warming_up = poll.begin_warm_up(incarnation, now);
        let transitions = match answer {
            Answer::Document {
                document,
                anomalies,
            } => self.observe(&document, anomalies, now),
            Answer::Unchanged => self.tracker.document_unchanged(now),
        };
        if is_first || ended_failure.is_some() {
            self.saves.mark();
            self.log_polling_recovered(ended_failure.as_ref(), now);
        }
        if let Some(until) = warming_up {
            self.saves.mark();
            let until = until.rfc3339();
            info!(until, "warming up: events may take five minutes to appear");
        }
        self.emit(transitions);
        self.evaluate_approvals(true, now);
    }

    fn poll_failed(&mut self, error: RequestError, now: Moment) {
        self.tracker.expire_ended(now);
        let pending = self.tracker.pending().count();
        let poll = &mut self.tracker.poll;
        if let Some(failure) = poll.fail(error, now) {
            warn!(
                name: log_id::POLLING_FAILED,
                reason = failure.error.reason.as_str(),
                error = failure.error.message,
                since = failure.since.wall.rfc3339(),
                pending,
                "polling failed"
            );
        }
    }

    /// `ended`: the failures before; none before the first poll of the process.
    fn log_polling_recovered(&self, ended: Option<&PollFailure>, now: Moment) {
        let failed_for = ended.map(|failure| in_words(now.monotonic - failure.since.monotonic));
        let message = match ended {
            None => "polling started",
            Some(_) => "polling recovered",
        };
        info!(
            name: log_id::POLLING_RECOVERED,
            document_incarnation = self.tracker.poll.incarnation(),
            pending = self.tracker.pending().count(),
            failed_for,
            "{message}"
        );
    }

    fn observe(
        &mut self,
        document: &Document,
        mut anomalies: Anomalies,
        now: Moment,
    ) -> Vec<Transition> {
        let vm = VmNames::new(self.vm_name.as_deref(), self.metadata_name.as_deref());
        let transitions = self.tracker.observe(document, vm, now);
        anomalies.extend(&self.tracker.anomalies);
        for (kind, count) in self
            .anomalies
            .compare(anomalies, &transitions, &mut self.log)
        {
            Arc::make_mut(&mut self.counters).count_anomalies(kind, count);
        }
        self.match_name();
        transitions
    }

    fn match_name(&mut self) {
        if !self.is_name_configured || self.metadata_name.is_some() {
            self.is_name_matched = None;
            return;
        }
        let events = self.tracker.saved_events();
        let is_any = |scope| events.iter().any(|tracked| tracked.scope == scope);
        if is_any(EventScope::Own) {
            self.is_name_matched = Some(true);
        } else if self.is_name_matched.is_none() && is_any(EventScope::Other) {
            self.is_name_matched = Some(false);
            warn!(
                name: log_id::VM_NAME_UNMATCHED,
                vm_name = self.vm_name.as_deref(),
                "no event has named this VM since the start, but events name other VMs: check --vm.name"
            );
        }
    }

    pub(super) fn identified(
        &mut self,
        result: Result<Identity, RequestError>,
        took: Duration,
        now: Moment,
    ) {
        let is_name_known = self.is_name_configured || self.identity.is_some();
        let error = result.as_ref().err();
        let counted = error.filter(|error| !error.is_identity_unavailable(is_name_known));
        let reason = counted.map(|error| error.reason);
        self.requests.count(took, reason);
        self.tracker.see_physical_host(|_| true);
        match result {
            Ok(identity) => {
                self.identity_error = None;
                let identity = match &self.identity {
                    Some(known) => known.updated(identity),
                    None => identity,
                };
                if self.identity.as_deref() != Some(&identity) {
                    self.set_identity(identity, now);
                    self.saves.mark();
                    self.evaluate_approvals(false, now);
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                let last = self.identity_error.replace(Arc::clone(&error));
                if last.as_deref().map(RequestError::cause) != Some(error.cause()) {
                    log_identity_unavailable(&error.message, is_name_known);
                }
            }
        }
    }

    fn set_identity(&mut self, identity: Identity, now: Moment) {
        let vm_id = &*identity.vm_id;
        let journal = Arc::make_mut(&mut self.journal);
        if journal.ownership.identify(vm_id) {
            warn!(vm_id, "state belongs to another VM: starting without it");
            let ownership = &journal.ownership;
            self.tracker.discard_foreign(|id| ownership.is_restored(id));
            journal.discard_foreign(&self.next_journal_id);
            // The outstanding write is that of the journal before.
            self.written_newest = 0;
            self.effects.push(Effect::ForgetDocument);
        }
        if let Some(owner) = &identity.owner {
            let owner = Some(Arc::from(owner.as_str())).filter(|_| !owner.is_empty());
            self.tracker.set_owner(owner, now);
        }
        if !self.is_name_configured {
            self.vm_name = Some(Arc::from(identity.name.as_str()));
        }
        self.metadata_name = Some(Arc::from(identity.name.as_str()));
        log_identity(&identity, self.vm_name.as_deref());
        let lacks_owner = self.tracker.owner.is_none();
        if let Some(tag) = self.owner_tag.as_deref().filter(|_| lacks_owner) {
            warn!(
                tag,
                "no owner: this VM has no such tag, or instance metadata lack the tags"
            );
        }
        self.identity = Some(Arc::new(identity));
        self.match_name();
        let vm = VmNames::new(self.vm_name.as_deref(), self.metadata_name.as_deref());
        let changed = self.tracker.set_vm_names(vm, now);
        for change in &changed {
            // One that names this VM was logged as one that may.
            if change.tracked.scope != EventScope::Own {
                log_transition(&mut self.log, change);
            }
        }
        self.transitions.extend(changed);
    }
}

fn log_identity(identity: &Identity, vm_name: Option<&str>) {
    if identity.contradicts(vm_name) {
        warn!(
            name: log_id::VM_NAME_CONTRADICTION,
            vm_name,
            metadata_name = identity.name,
            "VM name contradicts instance metadata: events with either name count as own, nothing is approved; correct --vm.name, or omit it"
        );
    }
    info!(
        vm_name,
        name = identity.name,
        computer_name = identity.computer_name,
        vm_id = identity.vm_id,
        vm_scale_set = identity.scale_set,
        vm_size = identity.vm_size,
        location = identity.location,
        owner = identity.owner,
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
