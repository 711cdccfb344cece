//! How much an event matters, by its alerts: for log records, and for the order of events.

use super::{
    Start,
    alerts::{AlertState, alerts},
    over_at,
};
use crate::{base::time::Moment, core::lifecycle::TrackedEvent};

/// The highest severity of the alerts that fire.
pub(crate) fn severity(tracked: &TrackedEvent, now: Moment) -> Option<&'static str> {
    let alerts = alerts(tracked, now).into_iter();
    let firing: Vec<_> = alerts
        .filter(|alert| alert.state == AlertState::Firing && alert.rule.is_notified())
        .map(|alert| alert.rule.severity)
        .collect();
    let mut severities = ["critical", "warning", "info"].into_iter();
    severities.find(|severity| firing.contains(severity))
}

/// The order of an event among the open ones: its severity (critical 3, warning 2, else 1), plus 20 if it has started,
/// or plus 10 minus 0.9 for each hour until it starts, if that is within the hour. If it starts later, 1 divided by the
/// hours. 0 after its end.
pub(crate) fn priority(tracked: &TrackedEvent, now: Moment) -> f64 {
    if over_at(tracked).is_some() {
        return 0.0;
    }
    let severity = match severity(tracked, now) {
        Some("critical") => 3.0,
        Some("warning") => 2.0,
        _ => 1.0,
    };
    let start = Start::of(tracked, now.wall);
    let hours = start.seconds_from(now.wall).unwrap_or(0.0).max(0.0) / 3600.0;
    match start {
        Start::Started(_) => 20.0 + severity,
        _ if hours <= 1.0 => 10.0 + severity - 0.9 * hours,
        _ => 1.0 / hours,
    }
}
