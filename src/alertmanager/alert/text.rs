//! The annotations `summary` and `description`, the same texts as those of the rules.
//!
//! All values are cut to whole units and never rounded up: a page must not promise more time than there is.

use super::rule::{
    AlertRule, DEGRADED_HARDWARE, HARDWARE_FAILURE, LONG_FREEZE_SECONDS, USER_WAITING,
    is_service_of_host, notice_seconds,
};
use crate::{
    event::{EventScope, EventType, Source, resource_name},
    lifecycle::{IMMINENT_SECONDS, Outcome, TrackedEvent},
    snapshot::Snapshot,
    text::label_value,
    time::{Timestamp, split_seconds},
};

/// Names of VMs in a description. An event of a large scale set has hundreds.
const MAX_NAMES: usize = 10;
const DAY_SECONDS: f64 = 86_400.0;

/// What the texts are made of.
pub(super) struct Text<'a> {
    pub(super) rule: AlertRule,
    pub(super) tracked: &'a TrackedEvent,
    pub(super) snapshot: &'a Snapshot,
    pub(super) now: Timestamp,
    pub(super) is_resolved: bool,
}

/// When the event takes place.
enum Time {
    Started(Timestamp),
    /// Seconds from now.
    Ahead(Timestamp, u64),
    Due(Timestamp),
    NotGiven,
}

/// What became of a resolved alert.
enum Fate {
    /// An event that waited for an approval has started.
    Started,
    /// Another alert has replaced it.
    Changed,
    /// The event does not name this VM any more.
    Left,
    Ended(Outcome),
}

impl Text<'_> {
    /// One line: what, which VM, and when.
    pub(super) fn summary(&self) -> String {
        let event = &self.tracked.event;
        let event_type = label_value(event.event_type.as_str());
        let (names, count) = self.names(1);
        let who = match (names.first(), count) {
            (None, _) => "a VM".to_owned(),
            (Some(name), 0 | 1) => name.clone(),
            (Some(name), 2) => format!("{name} and 1 more VM"),
            (Some(name), _) => format!("{name} and {} more VMs", count - 1),
        };
        let subject = if event.is_advisory() {
            let kind = match event.event_type {
                EventType::SpotRebalanceRecommendation => "Spot eviction",
                _ => event_type.as_ref(),
            };
            format!("{kind} advisory for {who}")
        } else if event.is_without_interruption() {
            format!("Host maintenance of {who} without interruption")
        } else {
            let prefix = match self.rule {
                USER_WAITING => "User ",
                HARDWARE_FAILURE => "Hardware failure: ",
                DEGRADED_HARDWARE => "Degraded hardware: ",
                _ => "",
            };
            format!("{prefix}{event_type} of {who}")
        };
        format!("{subject}{}", self.progress())
    }

    /// The end of the summary.
    fn progress(&self) -> String {
        let is_advisory = self.tracked.event.is_advisory();
        match self.fate() {
            Some(Fate::Started) => return " in progress".to_owned(),
            Some(Fate::Changed | Fate::Left) => return " changed".to_owned(),
            Some(Fate::Ended(_)) if is_advisory => return " ended".to_owned(),
            Some(Fate::Ended(Outcome::Unknown)) => return " ended, outcome unknown".to_owned(),
            Some(Fate::Ended(outcome)) => return format!(" {}", self.outcome(outcome)),
            None if is_advisory => return String::new(),
            None => {}
        }
        let is_waiting = self.rule == USER_WAITING;
        match self.time() {
            Time::Started(_) => " in progress".to_owned(),
            Time::Ahead(at, left) => {
                let latest = if is_waiting {
                    " waits, at the latest"
                } else {
                    ""
                };
                format!("{latest} in {} ({})", remaining(left), self.clock(at))
            }
            _ if is_waiting => " waits for an approval".to_owned(),
            Time::Due(at) => format!(" due since {}", self.clock(at)),
            Time::NotGiven => " at any moment".to_owned(),
        }
    }

    /// One line per property that has a value.
    pub(super) fn description(&self) -> String {
        let event = &self.tracked.event;
        let is_advisory = event.is_advisory();
        let duration = || match event.duration_seconds {
            Some(seconds) => format!("{} announced", humanize_duration(seconds)),
            None => "unknown".to_owned(),
        };
        let event_type = label_value(event.event_type.as_str());
        let source = event.source_text().unwrap_or(Source::NOT_GIVEN);
        let quoted = |text: &str| format!("\"{}\"", label_value(text));
        let lines = [
            Some(self.vms()),
            self.place().map(|place| format!("Where: {place}")),
            Some(format!("What: {event_type}: {}", event.effect().summary)),
            self.when().map(|when| format!("When: {when}")),
            (!is_advisory).then(|| format!("Duration: {}", duration())),
            self.outcome_line().map(|end| format!("Outcome: {end}")),
            (!self.is_resolved).then(|| format!("To do: {}", self.to_do())),
            Some(format!("Source: {}", label_value(source))),
            event
                .description_text()
                .map(|text| format!("Azure: {}", quoted(text))),
            Some(format!("Event: {}", label_value(event.id.as_str()))),
        ];
        lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// The first names of VMs in the order of the names, and the number of all. The same for every VM that pushes the
    /// event, because the texts of the last push are those of the notification.
    fn names(&self, max: usize) -> (Vec<String>, usize) {
        let own = self.snapshot.vm_name.as_deref();
        let mut names: Vec<&str> = match &self.tracked.event.resources {
            Some(resources) => resources.iter().map(AsRef::as_ref).collect(),
            None => own.into_iter().collect(),
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

    fn vms(&self) -> String {
        let (names, count) = self.names(MAX_NAMES);
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

    /// Of this VM, if the event names it. The VMs of an event are in one availability set or scale set.
    fn place(&self) -> Option<String> {
        let identity = self.snapshot.identity.as_deref()?;
        let scale_set = match label_value(&identity.scale_set) {
            name if name.is_empty() => String::new(),
            name => format!("scale set {name}"),
        };
        let parts = [scale_set, label_value(&identity.location).into_owned()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let is_known = self.tracked.scope == EventScope::Own && !parts.is_empty();
        is_known.then(|| parts.join(", "))
    }

    fn time(&self) -> Time {
        if let Some(at) = self.tracked.running_since() {
            return Time::Started(at);
        }
        let Some(not_before) = self.tracked.event.not_before else {
            return Time::NotGiven;
        };
        if not_before < self.now {
            return Time::Due(not_before);
        }
        let left = not_before.saturating_since(self.now).as_secs();
        Time::Ahead(not_before, left)
    }

    fn when(&self) -> Option<String> {
        if self.tracked.event.is_advisory() {
            return None;
        }
        let is_over = matches!(
            self.fate(),
            Some(Fate::Ended(_) | Fate::Changed | Fate::Left)
        );
        match self.time() {
            Time::Started(at) => Some(format!("started at {}", self.clock(at))),
            Time::Ahead(at, _) | Time::Due(at) if is_over => Some(self.clock(at)),
            Time::NotGiven if is_over => None,
            Time::Ahead(at, left) => Some(format!("{} (in {})", self.clock(at), remaining(left))),
            Time::Due(at) => Some(format!("due since {}", self.clock(at))),
            Time::NotGiven => Some("at any moment".to_owned()),
        }
    }

    /// The time of day, with the date if it is a day or more away.
    fn clock(&self, at: Timestamp) -> String {
        if at.seconds_from(self.now).abs() < DAY_SECONDS {
            at.minute()
        } else {
            at.date_and_minute()
        }
    }

    fn fate(&self) -> Option<Fate> {
        if !self.is_resolved {
            return None;
        }
        let is_waiting = self.rule == USER_WAITING;
        Some(match self.tracked.end {
            _ if is_waiting && self.tracked.running_since().is_some() => Fate::Started,
            _ if self.tracked.scope == EventScope::Other => Fate::Left,
            Some(end) => Fate::Ended(end.outcome),
            None => Fate::Changed,
        })
    }

    fn outcome_line(&self) -> Option<String> {
        match self.fate()? {
            Fate::Started => None,
            Fate::Changed => Some("changed, see the newer alert of the event".to_owned()),
            Fate::Left => Some(self.left()),
            Fate::Ended(_) if self.tracked.event.is_advisory() => Some("ended".to_owned()),
            Fate::Ended(outcome) => Some(self.outcome(outcome)),
        }
    }

    fn left(&self) -> String {
        let name = self.snapshot.vm_name.as_deref().unwrap_or("this VM");
        format!("the event does not name {} any more", label_value(name))
    }

    fn outcome(&self, outcome: Outcome) -> String {
        let interruption = self.tracked.observed_interruption();
        match interruption.filter(|_| outcome == Outcome::Completed) {
            Some(length) => {
                let length = humanize_duration(length.as_secs());
                format!("{}, interrupted for {length}", outcome.as_str())
            }
            None => outcome.as_str().to_owned(),
        }
    }

    fn to_do(&self) -> &'static str {
        let event = &self.tracked.event;
        let is_started = self.tracked.running_since().is_some();
        let is_ahead =
            notice_seconds(self.tracked).is_some_and(|notice| notice >= IMMINENT_SECONDS);
        let is_short = |seconds| seconds < LONG_FREEZE_SECONDS;
        match event.event_type {
            _ if event.is_advisory() => "move the load of the VM to another VM",
            _ if event.is_without_interruption() => "nothing",
            _ if self.rule == HARDWARE_FAILURE => {
                "check that other VMs carry the load; Azure restarts the VM"
            }
            EventType::Preempt => "save the state of the VM now; it is gone within seconds",
            EventType::Terminate => "nothing, if the deletion is intended; else save its data now",
            EventType::SpotRebalanceRecommendation | EventType::Other(_) => {
                "read the text of Azure and the documentation of the event type"
            }
            _ if is_started => "wait until the VM is back; the alert ends then",
            _ if self.rule == USER_WAITING => "approve the event, or wait",
            _ if is_ahead && is_service_of_host(event) => {
                "redeploy the VM yourself at a good time, before Azure does"
            }
            EventType::Freeze if event.duration_seconds.is_some_and(is_short) => {
                "nothing, unless the VM cannot pause for some seconds"
            }
            EventType::Freeze => "move the load of the VM before that time",
            EventType::Reboot => {
                "move the load of the VM and save what is in memory before that time"
            }
            EventType::Redeploy => {
                "move the load of the VM and save what is in memory and on the temporary disk before that time"
            }
        }
    }
}

/// `42s`, `14m`, `3h 14m`, `3d 4h`: what a title has room for.
fn remaining(total: u64) -> String {
    let [days, hours, minutes, seconds] = split_seconds(total);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m"),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// Like `humanizeDuration` of Prometheus' templates: `1d 2h 3m 4s`, `15m 0s`, `30s`.
fn humanize_duration(total: u64) -> String {
    let [days, hours, minutes, seconds] = split_seconds(total);
    if days > 0 {
        format!("{days}d {hours}h {minutes}m {seconds}s")
    } else if hours > 0 {
        format!("{hours}h {minutes}m {seconds}s")
    } else if minutes > 0 {
        format!("{minutes}m {seconds}s")
    } else {
        format!("{seconds}s")
    }
}
