//! What happened to an event of this VM, as spans. Pure: ids, names and attributes follow from the event and the VM alone.
//!
//! One event is one trace: its id is the GUID of the event, so every VM that the event names writes into the same one,
//! each with a root of its own.
//!
//! ```text
//! scheduled_event <EventType>   |first seen ------------------------- ended|   sent at the end
//!   scheduled_event announced   |                                              sent at once
//!   scheduled_event notice      |first seen ------ started|                    sent at the start
//!   scheduled_event impact                        |started ---------- ended|   sent at the end
//! ```
//!
//! Ids are a function of event, VM and phase: a span that is made again, after a crash or for an event that came back,
//! is the same span. Only an event that names this VM has spans ([`Scope::Own`]). Where that is learnt late, [`due`]
//! makes up for all that is past.

use std::fmt;

use super::resource::Resource;
use crate::{
    event::{Event, EventScope, Source, resource_name},
    lifecycle::{TrackedEvent, Transition, TransitionKind},
    snapshot::Identity,
    time::Timestamp,
};

/// What the names of all spans begin with.
const PREFIX: &str = "scheduled_event";

/// One span, ready to be kept and sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Names the event; the same on each VM.
    pub trace_id: [u8; 16],
    /// Names event, VM and phase.
    pub span_id: [u8; 8],
    /// The span of the whole event on this VM; none for that span itself.
    pub parent_span_id: Option<[u8; 8]>,
    /// `scheduled_event …`.
    pub name: String,
    /// Never after `end`.
    pub start: Timestamp,
    /// When it was over.
    pub end: Timestamp,
    /// What is known of the event.
    pub attributes: Vec<Attribute>,
    /// What happened meanwhile, in the order of time.
    pub events: Vec<SpanEvent>,
    /// Maintenance is no error; an approval that failed is.
    pub error: Option<String>,
}

/// Spans of one VM.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// The VM, as resource attributes.
    pub resource: Resource,
    pub spans: Vec<Span>,
}

/// A name and a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Value,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Int(i64),
    /// Any number.
    Float(f64),
    /// A list of strings.
    Texts(Vec<String>),
}

/// A point in the course of a span.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanEvent {
    /// `rescheduled`, `approved` or `interrupted`.
    pub name: String,
    /// When.
    pub at: Timestamp,
    /// What is known of it.
    pub attributes: Vec<Attribute>,
}

/// Tells the VMs of one event apart, the same before and after a reboot.
///
/// The VM's own name comes first: it is always known where an event names this VM, also before instance metadata have
/// answered, and no two entries of one event's `Resources` are equal. An id that came to be known between the first and
/// the last span of an event would tear them apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmKey(Box<str>);

impl VmKey {
    /// The own name, else the VM id, else a word that says that neither is known.
    pub fn of(identity: Option<&Identity>, vm_name: Option<&str>) -> Self {
        let name = vm_name.or(identity.map(|identity| identity.name.as_str()));
        let id = identity.map(|identity| identity.vm_id.as_str());
        let known = [name, id].into_iter().flatten().find(|key| !key.is_empty());
        Self(known.unwrap_or("unknown").to_ascii_lowercase().into())
    }
}

impl fmt::Display for VmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which part of an event a span is about. The words are part of the span ids: they must never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanPhase {
    Whole,
    Announced,
    Notice,
    Impact,
}

impl SpanPhase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Whole => "event",
            Self::Announced => "announced",
            Self::Notice => "notice",
            Self::Impact => "impact",
        }
    }
}

/// The spans that are due because of one thing that happened.
///
/// An event that came back and ended again has its spans sent again with the same ids and a later end.
pub fn spans(transition: &Transition, vm: &VmKey) -> Vec<Span> {
    let tracked = transition.tracked.as_ref();
    if tracked.scope != EventScope::Own {
        return Vec::new();
    }
    match &transition.kind {
        TransitionKind::Announced => vec![announced(tracked, vm)],
        // It names this VM from now on: what is past is due.
        TransitionKind::Amended { was_scope } if *was_scope != EventScope::Own => {
            backfill(tracked, vm)
        }
        TransitionKind::Started => notice(tracked, vm).into_iter().collect(),
        TransitionKind::Ended(_) => ended(tracked, vm),
        TransitionKind::Rescheduled(_)
        | TransitionKind::StatusChanged(_)
        | TransitionKind::Amended { .. }
        | TransitionKind::Approved
        | TransitionKind::Interrupted(_)
        | TransitionKind::Returned => Vec::new(),
    }
}

/// All spans of a life that are due by now: for an event of which it was learnt late that it names this VM.
pub fn backfill(tracked: &TrackedEvent, vm: &VmKey) -> Vec<Span> {
    if tracked.scope != EventScope::Own {
        return Vec::new();
    }
    let mut spans = vec![announced(tracked, vm)];
    if tracked.is_pending() {
        spans.extend(notice(tracked, vm));
    } else {
        spans.extend(notice(tracked, vm).filter(|_| tracked.started_at.is_some()));
        spans.extend(ended(tracked, vm));
    }
    spans
}

/// Zero length, and at once: on a Spot eviction it may be the only one.
fn announced(tracked: &TrackedEvent, vm: &VmKey) -> Span {
    let at = tracked.first_seen_at;
    let mut span = span(tracked, vm, SpanPhase::Announced, at, at);
    // What came later does not belong to the announcement.
    span.events.clear();
    span
}

/// Until the start, or until the end of an event that was never seen started. `None` while neither is known.
fn notice(tracked: &TrackedEvent, vm: &VmKey) -> Option<Span> {
    let end = tracked.started_at.or(tracked.end.map(|end| end.at))?;
    Some(span(
        tracked,
        vm,
        SpanPhase::Notice,
        tracked.first_seen_at,
        end,
    ))
}

/// What is due at the end. The notice of an event that was seen started has been sent then.
fn ended(tracked: &TrackedEvent, vm: &VmKey) -> Vec<Span> {
    let Some(end) = tracked.end else {
        return Vec::new();
    };
    let phase = match tracked.started_at {
        Some(started_at) => Some(span(tracked, vm, SpanPhase::Impact, started_at, end.at)),
        None => notice(tracked, vm),
    };
    let whole = span(tracked, vm, SpanPhase::Whole, tracked.first_seen_at, end.at);
    phase.into_iter().chain([whole]).collect()
}

impl Span {
    /// The id of its trace as people and backends write it.
    pub fn trace_id_hex(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.trace_id))
    }

    /// Its id as people and backends write it.
    pub fn span_id_hex(&self) -> String {
        format!("{:016x}", u64::from_be_bytes(self.span_id))
    }
}

fn span(
    tracked: &TrackedEvent,
    vm: &VmKey,
    phase: SpanPhase,
    start: Timestamp,
    end: Timestamp,
) -> Span {
    let event = &tracked.event;
    let name = match phase {
        SpanPhase::Whole => format!("{PREFIX} {}", event.event_type),
        part => format!("{PREFIX} {}", part.as_str()),
    };
    // A clock that was set back must not make a span that ends before it starts.
    let end = end.max(start);
    Span {
        trace_id: event.id.trace_id(),
        span_id: span_id(event, vm, phase),
        parent_span_id: (phase != SpanPhase::Whole).then(|| span_id(event, vm, SpanPhase::Whole)),
        name,
        start,
        end,
        attributes: attributes(tracked, phase),
        events: events(tracked, phase),
        error: error(tracked, phase),
    }
}

/// FNV-1a of the three, mixed so that each bit of the id depends on all of them; never zero, which is no valid span id
/// (W3C Trace Context).
fn span_id(event: &Event, vm: &VmKey, phase: SpanPhase) -> [u8; 8] {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let id = event.id.as_str().to_ascii_lowercase();
    let bytes = [id.as_bytes(), vm.0.as_bytes(), phase.as_str().as_bytes()].join(&0);
    let hash = bytes.iter().fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(PRIME)
    });
    mixed(hash).max(1).to_be_bytes()
}

/// The last step of `SplitMix64`: a bijection in which a change of one bit changes half of all.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

fn attribute(name: &str, value: Value) -> Attribute {
    Attribute {
        key: format!("azure.scheduled_event.{name}"),
        value,
    }
}

fn text(name: &str, value: impl Into<String>) -> Attribute {
    attribute(name, Value::Text(value.into()))
}

/// What is not known is absent.
fn attributes(tracked: &TrackedEvent, phase: SpanPhase) -> Vec<Attribute> {
    let event = &tracked.event;
    let mut all = vec![
        text("id", event.id.as_str()),
        text("type", event.event_type.as_str()),
        text("status", event.status.as_str()),
    ];
    all.extend(
        event
            .source
            .as_ref()
            .map(|source| text("source", Source::as_str(source))),
    );
    all.extend(
        event
            .resource_type
            .as_deref()
            .map(|word| text("resource_type", word)),
    );
    all.extend(event.resources.as_ref().map(|resources| {
        let names = resources
            .iter()
            .map(|entry| resource_name(entry).to_owned());
        attribute("resources", Value::Texts(names.collect()))
    }));
    all.extend(event.not_before.map(|at| text("not_before", at.rfc3339())));
    let seconds = event
        .duration_seconds
        .and_then(|seconds| i64::try_from(seconds).ok());
    all.extend(seconds.map(|seconds| attribute("duration", Value::Int(seconds))));
    all.extend(
        event
            .description
            .as_deref()
            .map(|words| text("description", words)),
    );
    if phase != SpanPhase::Announced {
        all.extend(tracked.end.map(|end| text("outcome", end.outcome.as_str())));
        all.extend(
            tracked.observed_interruption().map(|length| {
                attribute("observed_interruption", Value::Float(length.as_secs_f64()))
            }),
        );
    }
    all
}

/// The root has all of them; the notice has what moved the start, the impact what it did.
/// Maintenance is no error; an order to approve it that could not be carried out is.
fn error(tracked: &TrackedEvent, phase: SpanPhase) -> Option<String> {
    let at = tracked.refused_at?.rfc3339();
    let is_told = matches!(phase, SpanPhase::Whole | SpanPhase::Notice);
    is_told.then(|| format!("the metadata service did not take the approval, last at {at}"))
}

fn events(tracked: &TrackedEvent, phase: SpanPhase) -> Vec<SpanEvent> {
    let mut all = Vec::new();
    if matches!(phase, SpanPhase::Whole | SpanPhase::Notice) {
        all.extend(tracked.reschedulings.iter().map(|rescheduling| {
            let from = rescheduling
                .from
                .map(|from| text("rescheduled_from", from.rfc3339()));
            let to = text("not_before", rescheduling.to.rfc3339());
            event("rescheduled", rescheduling.at, from.into_iter().chain([to]))
        }));
        all.extend(tracked.approved_at.map(|at| event("approved", at, [])));
    }
    if matches!(phase, SpanPhase::Whole | SpanPhase::Impact) {
        all.extend(tracked.interruptions.iter().map(|interruption| {
            let length = Value::Float(interruption.length.as_secs_f64());
            let observed = attribute("observed_interruption", length);
            event("interrupted", interruption.until, [observed])
        }));
    }
    all.sort_by_key(|event| event.at);
    all
}

fn event(name: &str, at: Timestamp, attributes: impl IntoIterator<Item = Attribute>) -> SpanEvent {
    SpanEvent {
        name: name.to_owned(),
        at,
        attributes: attributes.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests;
