//! Carries out what the approval policy decides, and says each decision when it changes.
//!
//! An approval is sent after a good document has shown the event as scheduled, one request at a time, and counts where
//! IMDS answers 200. After anything else the document is read again before the next try, tries get rarer, and they end
//! with `NotBefore`. What was approved is in the state file, so a restart sends nothing twice.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tracing::{info, warn};

use super::{exporter::Exporter, logging, polling::Core};
use crate::{
    approval::{self, ApprovalPolicy, Decision},
    document::Document,
    event::{EventId, EventScope, Source},
    imds::{self, Client, cadence},
    lifecycle::{Phase, TrackedEvent},
    snapshot::{Approval, ApprovalResult, SkipReason},
    time::{Moment, Timestamp},
};

/// An approval that is refused so often will not be taken; with the pauses between, these last for 10 minutes and more.
const MAX_ATTEMPTS: u32 = 40;

/// Sends approvals.
#[derive(Debug)]
pub(super) struct Approver {
    settings: ApprovalPolicy,
    /// The events of the last document. What is pending but not in it could not be read, and is not approved.
    in_document: HashSet<EventId>,
    tried: BTreeMap<EventId, Tried>,
    decided: Arc<BTreeMap<EventId, Approval>>,
}

/// What came of earlier tries.
#[derive(Debug, Clone)]
enum Tried {
    /// The dry run is over.
    DryRun(Timestamp),
    /// It failed.
    Failed {
        attempts: u32,
        error: Box<str>,
        retry: Moment,
    },
}

impl Approver {
    pub(super) fn new(settings: ApprovalPolicy) -> Self {
        Self {
            settings,
            in_document: HashSet::new(),
            tried: BTreeMap::new(),
            decided: Arc::default(),
        }
    }

    /// A poll brought a document.
    pub(super) fn read(&mut self, document: &Document) {
        let ids = document.events.iter().map(|event| event.id.clone());
        self.in_document = ids.collect();
    }

    /// Decides anew about every event, and says what has changed.
    pub(super) fn review(&mut self, exporter: &mut Exporter, now: Moment) {
        self.next(exporter, now);
    }

    /// Sends what is due, until one is refused. A poll must just have succeeded.
    pub(super) async fn work(&mut self, client: &mut Client, core: &mut Core, patience: Duration) {
        while let Some(tracked) = self.next(&mut core.exporter, core.clock.now()) {
            let id = &tracked.event.id;
            let event_type = &tracked.event.event_type;
            if self.settings.dry_run {
                let now = core.clock.now();
                self.tried.insert(id.clone(), Tried::DryRun(now.wall));
                core.exporter
                    .count_approval(event_type, ApprovalResult::DryRun);
                self.review(&mut core.exporter, now);
                core.settle(&[]).await;
                continue;
            }
            let clock = core.clock;
            let began = clock.now();
            let sent = core.beating(client.approve(id, patience, clock)).await;
            let now = clock.now();
            let took = now.monotonic.saturating_sub(began.monotonic);
            let exporter = &mut core.exporter;
            exporter.count_request(took, sent.as_ref().err().map(imds::Error::reason));
            let (result, transitions) = match &sent {
                Ok(()) => (ApprovalResult::Approved, exporter.approved(id, now)),
                Err(error) => {
                    exporter.refused(id, now);
                    self.failed(id, error, now);
                    (ApprovalResult::Failed, Vec::new())
                }
            };
            exporter.count_approval(event_type, result);
            self.review(exporter, now);
            core.settle(&transitions).await;
            if sent.is_err() {
                return;
            }
        }
    }

    /// Decides about every event; the first that is due.
    fn next(&mut self, exporter: &mut Exporter, now: Moment) -> Option<Arc<TrackedEvent>> {
        let vm_name = exporter.certain_name();
        let events = exporter.events();
        let mut decided = BTreeMap::new();
        let mut first = None;
        for tracked in events.iter().filter(|tracked| tracked.is_pending()) {
            let decision = approval::decide(tracked, &self.settings, vm_name.as_deref(), now);
            let id = &tracked.event.id;
            let approval = self.shown(id, decision, now);
            let is_due = matches!(approval, Approval::Due(_)) && self.in_document.contains(id);
            if is_due && first.is_none() {
                first = Some(Arc::clone(tracked));
            }
            if is_news(self.decided.get(id), &approval, tracked) {
                say(&approval, tracked);
            }
            decided.insert(id.clone(), approval);
        }
        self.tried.retain(|id, _| decided.contains_key(id));
        if *self.decided != decided {
            self.decided = Arc::new(decided);
            exporter.show_approvals(Arc::clone(&self.decided));
        }
        first
    }

    /// The decision in the light of what was tried before.
    fn shown(&self, id: &EventId, decision: Decision, now: Moment) -> Approval {
        let ground = match decision {
            Decision::Withhold(why) => return Approval::Withheld(why),
            Decision::Approved(at) => return Approval::Approved { at },
            Decision::Wait {
                ground,
                leader,
                until,
            } => {
                return Approval::Waiting {
                    ground,
                    leader,
                    until,
                };
            }
            Decision::Approve(ground) => ground,
        };
        match self.tried.get(id) {
            None => Approval::Due(ground),
            Some(Tried::DryRun(at)) => Approval::DryRun { ground, at: *at },
            Some(Tried::Failed { attempts, .. }) if *attempts >= MAX_ATTEMPTS => {
                Approval::Withheld(SkipReason::GaveUp)
            }
            Some(Tried::Failed { retry, .. }) if retry.monotonic <= now.monotonic => {
                Approval::Due(ground)
            }
            Some(Tried::Failed {
                attempts,
                error,
                retry,
            }) => Approval::Failed {
                ground,
                attempts: *attempts,
                error: error.clone(),
                retry_at: retry.wall,
            },
        }
    }

    fn failed(&mut self, id: &EventId, error: &imds::Error, now: Moment) {
        let before = match self.tried.get(id) {
            Some(Tried::Failed { attempts, .. }) => *attempts,
            Some(Tried::DryRun(_)) | None => 0,
        };
        let attempts = before.saturating_add(1);
        let outcome = cadence::PollResult::Failed {
            reason: error.reason(),
            retry_after: error.retry_after(),
            in_a_row: attempts,
        };
        let interval = cadence::MIN_REQUEST_INTERVAL;
        let pause = cadence::next_delay(outcome, Duration::ZERO, interval, fastrand::f64());
        let tried = Tried::Failed {
            attempts,
            error: error.to_string().into(),
            retry: now.after(pause),
        };
        self.tried.insert(id.clone(), tried);
    }
}

/// Whether a person wants to read it: what changed about events that name this VM or may do so. An event that is not to
/// be approved and starts has nothing new in it, and neither has one that nobody asked this exporter to approve.
fn is_news(before: Option<&Approval>, now: &Approval, tracked: &TrackedEvent) -> bool {
    if tracked.scope == EventScope::Other {
        return false;
    }
    let said = |approval: &Approval| (approval.decision(), approval.reason());
    match (before, now) {
        (None, Approval::Withheld(SkipReason::Off)) => {
            tracked.event.source == Some(Source::User) && tracked.phase() == Phase::Scheduled
        }
        // The last is said by the transition.
        (
            Some(Approval::Withheld(_)),
            Approval::Withheld(SkipReason::NotScheduled | SkipReason::NotBeforePassed),
        )
        | (Some(_), Approval::Withheld(SkipReason::Off))
        | (_, Approval::Approved { .. }) => false,
        (Some(before), now) => said(before) != said(now),
        (None, _) => true,
    }
}

/// One line for each decision.
fn say(approval: &Approval, tracked: &TrackedEvent) {
    let event = &tracked.event;
    macro_rules! line {
        ($level:ident) => {
            $level!(
                decision = approval.decision(),
                reason = approval.reason(),
                at = approval.at().map(Timestamp::rfc3339),
                says = approval.in_words(),
                event_id = event.id.as_str(),
                event_type = event.event_type.as_str(),
                event_status = event.status.as_str(),
                event_source = event.source.as_ref().map_or("", Source::as_str),
                duration_seconds = event.duration_seconds,
                not_before = event.not_before.map(Timestamp::rfc3339),
                resources = logging::resources(event),
                "approval"
            )
        };
    }
    match approval {
        Approval::Failed { .. } | Approval::Withheld(SkipReason::GaveUp) => line!(warn),
        _ => line!(info),
    }
}
