//! The words about an event, for people: a title and a description.
//!
//! Times are absolute, in UTC, so that the words change when the event does and not with time. All values are cut to
//! whole units and never rounded up: a page must not promise more time than there is. The words are the same for every
//! VM that the event names, as far as these know the same.

use super::{
    alerts::{self, AlertRule, DEGRADED_HARDWARE, HARDWARE_FAILURE, STUCK},
    down_vm::STUCK_AFTER,
    over_at,
    start::Start,
};
use crate::{
    azure::{
        Identity,
        event::{EventScope, Impact, Source, resource_name},
    },
    base::{
        text::{cut, label_value},
        time::{Moment, Timestamp, split_seconds},
    },
    core::{
        lifecycle::{Outcome, TrackedEvent},
        snapshot::Snapshot,
    },
};

/// Managed services of Prometheus reject label values of more than 1,023 bytes.
const MAX_BYTES: usize = 1_000;
/// Names of VMs and characters of Azure's text in a description, until it is short enough.
const SIZES: [(usize, usize); 4] = [(10, 256), (5, 128), (2, 64), (1, 0)];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// One line: what, which VM, and when or how it ended.
    pub(crate) summary: String,
    /// One line for each property that has a value.
    pub(crate) description: String,
    /// When the event changed so that these are the words.
    pub(crate) since: Timestamp,
}

pub(crate) fn message(tracked: &TrackedEvent, snapshot: &Snapshot, now: Moment) -> Message {
    Text::new(tracked, snapshot, now).message()
}

/// For an alert that is over although the event is not: nobody is to act on it.
pub(crate) fn message_without_advice(
    tracked: &TrackedEvent,
    snapshot: &Snapshot,
    now: Moment,
) -> Message {
    let mut text = Text::new(tracked, snapshot, now);
    text.has_advice = false;
    text.message()
}

/// What the words are made of.
pub(super) struct Text<'a> {
    pub(super) tracked: &'a TrackedEvent,
    vm_name: Option<&'a str>,
    /// The identity of this VM, if the event names it. The VMs of an event are in one availability set or scale set.
    pub(super) identity: Option<&'a Identity>,
    pub(super) start: Start,
    since: Timestamp,
    is_over: bool,
    has_advice: bool,
    rules: Vec<AlertRule>,
}

impl<'a> Text<'a> {
    fn new(tracked: &'a TrackedEvent, snapshot: &'a Snapshot, now: Moment) -> Self {
        let over_at = over_at(tracked);
        let rules = {
            let at = over_at.map_or(now, |at| tracked.moment(at));
            alerts::rules(&tracked.shown.kind(), tracked, at)
        };
        let identity = snapshot.identity.as_deref();
        let is_stuck = rules.contains(&STUCK);
        let stuck_at = tracked.running_since().map(|at| at.after(STUCK_AFTER));
        let changes = [
            Some(tracked.changed_at),
            over_at,
            over_at
                .and(tracked.interruptions.last())
                .map(|last| last.until),
            stuck_at.filter(|_| is_stuck),
        ];
        let steps = tracked.approval.shown().map(|(_, at)| at);
        Self {
            tracked,
            vm_name: snapshot.vm_name.as_deref(),
            identity: identity.filter(|_| tracked.scope == EventScope::Own),
            start: Start::of(tracked, now.wall),
            since: changes
                .into_iter()
                .flatten()
                .chain(steps)
                .max()
                .unwrap_or(now.wall),
            is_over: over_at.is_some(),
            has_advice: over_at.is_none(),
            rules,
        }
    }

    fn message(&self) -> Message {
        Message {
            summary: self.summary(),
            description: self.description(),
            since: self.since,
        }
    }

    pub(super) fn has(&self, rule: AlertRule) -> bool {
        self.rules.contains(&rule)
    }

    pub(super) fn is_user_initiated(&self) -> bool {
        let event = &self.tracked.shown;
        event.source == Some(Source::User) && event.event_type.restarts_vm()
    }

    fn summary(&self) -> String {
        let event = &self.tracked.shown;
        let event_type = label_value(event.event_type.as_str());
        let prefix = match self {
            _ if self.has(STUCK) && !self.is_over => "Stuck: ",
            _ if self.is_user_initiated() => "User ",
            _ if self.has(HARDWARE_FAILURE) => "Hardware failure: ",
            _ if self.has(DEGRADED_HARDWARE) => "Degraded hardware: ",
            _ => "",
        };
        let (what, preposition) = if event.is_advisory() {
            let kind = event.event_type.spec().advised.unwrap_or(&event_type);
            (format!("{kind} advisory"), " for")
        } else if event.is_without_interruption() {
            ("Host maintenance".to_owned(), " of")
        } else {
            (format!("{prefix}{event_type}"), " of")
        };
        let (names, count) = self.names(1);
        let who = match (names.first(), count) {
            (None, _) => "a VM".to_owned(),
            (Some(name), 0 | 1) => name.clone(),
            (Some(name), 2) => format!("{name} and 1 more VM"),
            (Some(name), _) => format!("{name} and {} more VMs", count - 1),
        };
        let without = if event.is_without_interruption() && !event.is_advisory() {
            " without interruption"
        } else {
            ""
        };
        let subject = format!("{what}{preposition} {who}{without}");
        let subject = if self.tracked.scope == EventScope::Unknown && !self.is_over {
            let this = label_value(self.vm_name.unwrap_or("this VM"));
            let what = if event.resources.is_some() {
                subject
            } else {
                what
            };
            format!("{what} may affect {this}")
        } else {
            subject
        };
        cut(format!("{subject}{}", self.progress()), MAX_BYTES)
    }

    /// The end of the summary.
    fn progress(&self) -> String {
        if let Some(end) = self.end() {
            return format!(" {end}");
        }
        let waits = if self.is_user_initiated() {
            " waits for an approval"
        } else {
            ""
        };
        match self.start {
            Start::Never => String::new(),
            Start::Started(at) => format!(" in progress since {}", self.clock(at)),
            Start::Approved => " is approved, at any moment".to_owned(),
            Start::NotBefore(at) if self.is_user_initiated() => {
                format!("{waits}, until {} at the latest", self.clock(at))
            }
            Start::NotBefore(at) => format!(" at {}", self.clock(at)),
            Start::MayBeApproved | Start::AboutToBeApproved => {
                match self.tracked.shown.not_before {
                    Some(at) => format!(" at {} or earlier", self.clock(at)),
                    None => " at any moment".to_owned(),
                }
            }
            Start::NotAnnounced if self.is_user_initiated() => {
                format!("{waits}, or starts at any moment")
            }
            Start::NotAnnounced => " at any moment".to_owned(),
        }
    }

    fn description(&self) -> String {
        let mut text = String::new();
        for (names, azure) in SIZES {
            text = self.description_with(names, azure);
            if text.len() <= MAX_BYTES {
                break;
            }
        }
        cut(text, MAX_BYTES)
    }

    fn description_with(&self, max_names: usize, azure_chars: usize) -> String {
        let event = &self.tracked.shown;
        let event_type = label_value(event.event_type.as_str());
        let source = event.source_text().unwrap_or(Source::NOT_GIVEN);
        let azure = |text: &str| {
            let text: String = label_value(text).chars().take(azure_chars).collect();
            format!("Azure: \"{text}\"")
        };
        let lines = [
            Some(self.vms(max_names)),
            self.place(),
            Some(format!("What: {event_type}: {}", event.meaning())),
            self.when().map(|when| format!("When: {when}")),
            self.duration().map(|length| format!("Duration: {length}")),
            self.end().map(|end| format!("Outcome: {end}")),
            self.has_advice.then(|| format!("To do: {}", self.to_do())),
            Some(format!("Source: {}", label_value(source))),
            event
                .description_text()
                .filter(|_| azure_chars > 0)
                .map(azure),
            Some(format!("Event: {}", event.id.label())),
        ];
        lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// The first names of VMs in the order of the names, and the number of all.
    pub(super) fn names(&self, max: usize) -> (Vec<String>, usize) {
        let mut names: Vec<&str> = match &self.tracked.shown.resources {
            Some(resources) => resources.iter().map(AsRef::as_ref).collect(),
            None => self.vm_name.into_iter().collect(),
        };
        for name in &mut names {
            *name = resource_name(name);
        }
        names.sort_unstable();
        let count = names.len();
        let first = names.into_iter().take(max);
        (
            first.map(|name| label_value(name).into_owned()).collect(),
            count,
        )
    }

    fn vms(&self, max_names: usize) -> String {
        let (names, count) = self.names(max_names);
        let more = match count.saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match count {
            0 => "VMs: not known".to_owned(),
            1 => format!("VM: {}", names.join(", ")),
            _ => format!("VMs: {}{more} ({count})", names.join(", ")),
        }
    }

    fn place(&self) -> Option<String> {
        let identity = self.identity?;
        let parts = [
            ("host ", identity.host().unwrap_or_default()),
            ("scale set ", &identity.scale_set),
            ("", &identity.location),
            ("resource group ", &identity.resource_group),
            ("subscription ", &identity.subscription_id),
        ];
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}{}", label_value(value)))
            .collect();
        (!parts.is_empty()).then(|| format!("Where: {}", parts.join(", ")))
    }

    fn when(&self) -> Option<String> {
        let event = &self.tracked.shown;
        if event.is_advisory() {
            return None;
        }
        if let Some(at) = self.tracked.running_since() {
            return Some(format!("started at {}", self.clock(at)));
        }
        let not_before = event.not_before.map(|at| self.clock(at));
        let any_moment = "at any moment";
        match (self.start, not_before) {
            (_, not_before) if self.is_over => not_before,
            (Start::Approved, _) => Some(format!("{any_moment}: it is approved")),
            (Start::MayBeApproved, _) => Some(format!("{any_moment}: it may be approved")),
            (Start::AboutToBeApproved, _) => Some("soon: it is about to be approved".to_owned()),
            (_, Some(clock)) => Some(clock),
            (_, None) => Some(any_moment.to_owned()),
        }
    }

    /// The time of day, with the date unless it is that of the change, and with seconds for a Spot eviction.
    fn clock(&self, at: Timestamp) -> String {
        let day = |at: Timestamp| at.format("%F");
        let format = if self.tracked.shown.event_type.spec().shows_seconds {
            "%H:%M:%S UTC"
        } else if day(at) == day(self.since) {
            "%H:%M UTC"
        } else {
            "%Y-%m-%d %H:%M UTC"
        };
        at.format(format)
    }

    fn duration(&self) -> Option<String> {
        let event = &self.tracked.shown;
        if event.is_advisory() {
            return None;
        }
        let spec = event.event_type.spec();
        match (event.duration_seconds, spec.usual_duration) {
            (Some(seconds), _) => Some(format!("{} announced", humanize_duration(seconds))),
            (None, Some(usual)) => Some(format!("not announced; usually {usual}")),
            // The VM does not come back.
            (None, None) if spec.impact == Impact::Removal => None,
            (None, None) => Some("not announced".to_owned()),
        }
    }

    /// How the event ended. `None` while it is pending.
    fn end(&self) -> Option<String> {
        let tracked = self.tracked;
        if !self.is_over {
            return None;
        }
        // An event that has named this VM, and no longer does. One that never named it has an outcome like any other.
        let has_left = tracked.left_at.is_some() && tracked.scope == EventScope::Other;
        let Some(end) = tracked.end.filter(|_| !has_left) else {
            let name = self.vm_name.unwrap_or("this VM");
            return Some(format!("changed: it does not name {}", label_value(name)));
        };
        let interruption = tracked.longest_interruption;
        Some(match (end.outcome, interruption) {
            _ if tracked.shown.is_advisory() => "ended".to_owned(),
            (Outcome::Unknown, _) => "ended, outcome unknown".to_owned(),
            (Outcome::Completed, Some(length)) => {
                let length = humanize_duration(length.as_secs());
                format!("completed, interrupted for {length}")
            }
            (outcome, _) => outcome.as_str().to_owned(),
        })
    }
}

/// Like `humanizeDuration` of Prometheus' templates: `1d 2h 3m 4s`, `15m 0s`, `30s`.
fn humanize_duration(total: u64) -> String {
    let units = split_seconds(total).into_iter().zip("dhms".chars());
    units
        .skip_while(|(number, unit)| *number == 0 && *unit != 's')
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect::<Vec<_>>()
        .join(" ")
}
