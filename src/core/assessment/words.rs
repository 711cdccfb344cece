//! The words about an event, for people: a title and a description.
//!
//! Times are absolute, in UTC, so that the words change when the event does and not with time. All values are cut to
//! whole units and never rounded up: a page must not promise more time than there is.

use std::time::Duration;

use super::{
    Judgement, Start,
    alerts::{
        AlertRule, DEGRADED_HARDWARE, HARDWARE_FAILURE, STUCK, STUCK_AFTER, is_avoidable, is_short,
        notice_seconds,
    },
};
use crate::{
    azure::{
        Identity,
        event::{EventScope, Impact, Source, resource_name},
    },
    base::{
        text::{cut, label_value},
        time::{Timestamp, in_words},
    },
    core::{
        lifecycle::{IMMINENT_SECONDS, Outcome, TrackedEvent},
        snapshot::Snapshot,
    },
};

/// Managed services of Prometheus reject label values of more than 1,023 bytes.
const MAX_BYTES: usize = 1_000;
/// Names of VMs and characters of Azure's text in a description, until it is short enough.
const SIZES: [(usize, usize); 4] = [(10, 256), (5, 128), (2, 64), (1, 0)];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    /// One line: what, which VM, and when or how it ended.
    pub(crate) summary: String,
    /// A label and a text for each property that has a value.
    pub(crate) lines: Vec<(&'static str, String)>,
    /// When the event changed so that these are the words.
    pub(crate) since: Timestamp,
}

const TO_DO: &str = "To do";

impl Words {
    pub(crate) fn description(&self) -> String {
        cut(join(self.lines.iter()), MAX_BYTES)
    }

    /// For an alert that is over although the event is not: nobody is to act on it.
    pub(crate) fn description_without_advice(&self) -> String {
        let lines = self.lines.iter().filter(|(label, _)| *label != TO_DO);
        cut(join(lines), MAX_BYTES)
    }
}

fn join<'a>(lines: impl Iterator<Item = &'a (&'static str, String)>) -> String {
    let lines: Vec<_> = lines
        .map(|(label, text)| format!("{label}: {text}"))
        .collect();
    lines.join("\n")
}

impl Judgement<'_> {
    pub(crate) fn words(&self, snapshot: &Snapshot) -> Words {
        let text = Text::new(self, snapshot);
        let mut lines = Vec::new();
        for (names, azure) in SIZES {
            lines = text.lines(names, azure);
            if join(lines.iter()).len() <= MAX_BYTES {
                break;
            }
        }
        Words {
            summary: text.summary(),
            lines,
            since: text.since,
        }
    }
}

struct Text<'a> {
    judgement: &'a Judgement<'a>,
    tracked: &'a TrackedEvent,
    vm_name: Option<&'a str>,
    /// The identity of this VM, if the event names it. The VMs of an event are in one availability set or scale set.
    identity: Option<&'a Identity>,
    since: Timestamp,
}

impl<'a> Text<'a> {
    fn new(judgement: &'a Judgement<'_>, snapshot: &'a Snapshot) -> Self {
        let (tracked, over_at) = (judgement.tracked, judgement.over_at);
        let is_stuck = judgement.rules.contains(&STUCK);
        let stuck_at = tracked.running_since().map(|at| at.after(STUCK_AFTER));
        let interruption = over_at.and(tracked.interruptions.last());
        let changes = [
            over_at,
            interruption.map(|last| last.until),
            stuck_at.filter(|_| is_stuck),
        ];
        let steps = tracked.approval.shown().map(|(_, at)| at);
        let changes = changes.into_iter().flatten().chain(steps);
        let identity = snapshot.identity.as_deref();
        Self {
            judgement,
            tracked,
            vm_name: snapshot.vm_name.as_deref(),
            identity: identity.filter(|_| tracked.scope == EventScope::Own),
            since: changes.fold(tracked.changed_at, Ord::max),
        }
    }

    fn is_over(&self) -> bool {
        self.judgement.over_at.is_some()
    }

    fn has(&self, rule: AlertRule) -> bool {
        self.judgement.rules.contains(&rule)
    }

    fn is_user_initiated(&self) -> bool {
        let event = &self.tracked.shown;
        event.source == Some(Source::User) && event.event_type.restarts_vm()
    }

    fn summary(&self) -> String {
        let event = &self.tracked.shown;
        let event_type = label_value(event.event_type.as_str());
        let prefix = match self {
            _ if self.has(STUCK) && !self.is_over() => "Stuck: ",
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
        let subject = if self.tracked.scope == EventScope::Unknown && !self.is_over() {
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

    fn progress(&self) -> String {
        if let Some(end) = self.end() {
            return format!(" {end}");
        }
        let and = match self.tracked.scope {
            EventScope::Unknown => " and",
            EventScope::Own | EventScope::Other => "",
        };
        let waits = format!("{and} waits for an approval");
        let latest = self.tracked.shown.not_before;
        let latest = latest.map_or_else(String::new, |at| {
            format!(", at {} at the latest", self.clock(at))
        });
        match self.judgement.start {
            Start::Never => String::new(),
            Start::Started(at) => format!(" in progress since {}", self.clock(at)),
            Start::Approved => format!("{and} is approved, at any moment"),
            Start::NotBefore(at) if self.is_user_initiated() => {
                format!("{waits}, until {} at the latest", self.clock(at))
            }
            Start::NotBefore(at) => format!(" at {}", self.clock(at)),
            Start::MayBeApproved => format!("{and} may start at any moment{latest}"),
            Start::AboutToBeApproved => format!("{and} is about to be approved{latest}"),
            Start::NotAnnounced if self.is_user_initiated() => {
                format!("{waits}, or starts at any moment")
            }
            Start::NotAnnounced => " at any moment".to_owned(),
        }
    }

    fn lines(&self, max_names: usize, azure_chars: usize) -> Vec<(&'static str, String)> {
        let event = &self.tracked.shown;
        let source = event.source_text().unwrap_or(Source::NOT_GIVEN);
        let azure = event.description_text().filter(|_| azure_chars > 0);
        let azure = azure.map(|text| {
            let text: String = label_value(text).chars().take(azure_chars).collect();
            format!("\"{text}\"")
        });
        let what = format!(
            "{}: {}",
            label_value(event.event_type.as_str()),
            event.meaning()
        );
        let (vms, names) = self.vms(max_names);
        let lines = [
            (vms, Some(names)),
            ("Where", self.place()),
            ("What", Some(what)),
            ("When", self.when()),
            ("Duration", self.duration()),
            ("Outcome", self.end().map(|end| end + &self.moved())),
            (TO_DO, (!self.is_over()).then(|| self.to_do())),
            ("Source", Some(label_value(source).into_owned())),
            ("Azure", azure),
            ("Event", Some(event.id.label().into_owned())),
        ];
        let lines = lines.into_iter();
        lines
            .filter_map(|(label, text)| Some((label, text?)))
            .collect()
    }

    /// The first names of VMs in Azure's order, in which the first one leads, and the number of all.
    fn names(&self, max: usize) -> (Vec<String>, usize) {
        let mut names: Vec<&str> = match &self.tracked.shown.resources {
            Some(resources) => resources.iter().map(AsRef::as_ref).collect(),
            None => self.vm_name.into_iter().collect(),
        };
        for name in &mut names {
            *name = resource_name(name);
        }
        let count = names.len();
        let first = names.into_iter().take(max);
        (
            first.map(|name| label_value(name).into_owned()).collect(),
            count,
        )
    }

    fn vms(&self, max_names: usize) -> (&'static str, String) {
        let (names, count) = self.names(max_names);
        let more = match count.saturating_sub(names.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match count {
            0 => ("VMs", "not known".to_owned()),
            1 => ("VM", names.join(", ")),
            _ => ("VMs", format!("{}{more} ({count})", names.join(", "))),
        }
    }

    fn place(&self) -> Option<String> {
        let unknown = Identity::default();
        let identity = self.identity.unwrap_or(&unknown);
        // The outcome has both hosts of a move.
        let host = self.tracked.physical_host();
        let host = host.filter(|_| self.tracked.moved_to().is_none());
        let parts = [
            ("host ", identity.host().unwrap_or_default()),
            ("scale set ", &identity.scale_set),
            ("", &identity.location),
            ("resource group ", &identity.resource_group),
            ("subscription ", &identity.subscription_id),
            ("physical host ", host.unwrap_or_default()),
        ];
        let parts: Vec<_> = parts
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}{}", label_value(value)))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Empty unless the physical host is known to have changed: the same host is no proof that the VM stayed.
    fn moved(&self) -> String {
        let hosts = self.tracked.physical_host().zip(self.tracked.moved_to());
        hosts.map_or_else(String::new, |(from, to)| {
            format!(", moved from {} to {}", label_value(from), label_value(to))
        })
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
        match (self.judgement.start, not_before) {
            (_, not_before) if self.is_over() => not_before,
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
            (Some(seconds), _) => {
                let length = in_words(Duration::from_secs(seconds));
                Some(format!("{length} announced"))
            }
            (None, Some(usual)) => Some(format!("not announced; usually {usual}")),
            // The VM does not come back.
            (None, None) if spec.impact == Impact::Removal => None,
            (None, None) => Some("not announced".to_owned()),
        }
    }

    /// How the event ended. `None` while it is pending.
    fn end(&self) -> Option<String> {
        let tracked = self.tracked;
        if !self.is_over() {
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
                format!("completed, interrupted for {}", in_words(length))
            }
            (outcome, _) => outcome.as_str().to_owned(),
        })
    }

    fn to_do(&self) -> String {
        let event = &self.tracked.shown;
        let is_started = matches!(self.judgement.start, Start::Started(_));
        let is_due_by_approval = matches!(
            self.judgement.start,
            Start::Approved | Start::MayBeApproved | Start::AboutToBeApproved
        );
        let impact = event.impact();
        let is_ahead =
            notice_seconds(self.tracked).is_some_and(|notice| notice >= IMMINENT_SECONDS);
        let text = match impact {
            Impact::None if event.is_other_advisory() => {
                "read the text of Azure; no maintenance is scheduled"
            }
            _ if event.is_without_interruption() => "nothing",
            _ if self.has(STUCK) => {
                "check whether the VM works; if not, redeploy it or open a support request"
            }
            _ if self.has(HARDWARE_FAILURE) => {
                "check that other VMs carry the load; Azure restarts the VM"
            }
            Impact::Pause | Impact::Restart if is_started => {
                "wait until the VM is back; the alert ends then"
            }
            _ if self.is_user_initiated() && is_due_by_approval => {
                "wait until the VM is back; the alert ends then"
            }
            _ if self.is_user_initiated() => "approve the event, or wait",
            Impact::Pause if is_short(event.duration_seconds) => {
                "nothing, unless the VM cannot pause for some seconds"
            }
            _ if is_ahead && is_avoidable(event) && !is_due_by_approval => return self.redeploy(),
            _ => event.event_type.spec().to_do,
        };
        text.to_owned()
    }

    /// With the command, for a VM that is not in a scale set: an instance of a scale set has others.
    fn redeploy(&self) -> String {
        let when = if self.has(DEGRADED_HARDWARE) {
            "as soon as possible"
        } else {
            "at a good time"
        };
        let text = format!("redeploy the VM yourself {when}");
        let otherwise = self.tracked.shown.event_type.spec().to_do;
        let is_plain = |value: &str| {
            let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
            !value.is_empty() && value.chars().all(is_plain)
        };
        let Some(identity) = self.identity.filter(|identity| {
            identity.scale_set.is_empty()
                && is_plain(&identity.resource_group)
                && is_plain(&identity.name)
        }) else {
            return format!("{text}, or {otherwise}");
        };
        let name = match self.names(1).1 {
            1 => identity.name.as_str(),
            _ => "NAME",
        };
        let subscription = if is_plain(&identity.subscription_id) {
            format!(" --subscription {}", identity.subscription_id)
        } else {
            String::new()
        };
        let group = &identity.resource_group;
        format!("{text} (az vm redeploy -g {group} -n {name}{subscription}), or {otherwise}")
    }
}
