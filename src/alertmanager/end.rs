//! The end of an alert: whether this exporter may resolve it. Pure.
//!
//! All VMs that an event names push the same alert, Prometheus sends it too, and Alertmanager takes the latest message.
//! If one VM sees the end too early, for example in an empty document, it must not resolve what the others still
//! assert. If it sees the end before Prometheus does, the next message of Prometheus would fire the alert again.
//! Alertmanager sets `updatedAt` at each message, so an alert with the same `updatedAt` as 130 seconds before is
//! asserted by none. The two values are compared with each other and not with a clock.
//!
//! If nobody else can have asserted the alert within 130 seconds, it is resolved at once. Another VM can if the event
//! names one, Prometheus if its message was the latest at a read: it sets `generatorURL`, and a push does not.
//! Therefore an alert of this VM alone is also read each time before it is sent again. `endsAt` does not show who was
//! the latest: Alertmanager keeps the later one of two messages.

use std::time::Duration;

use serde::Deserialize;

use super::alert::Labels;

/// An alert that fires, in the format of Alertmanager's API v2.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedAlert {
    pub(super) labels: Labels,
    /// When Alertmanager received it last.
    pub(super) updated_at: String,
    /// The link that Prometheus and other rulers set. Empty if the latest message was a push.
    #[serde(default, rename = "generatorURL")]
    pub(super) generator_url: String,
}

/// What Alertmanager answered about an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed<'a> {
    /// It fires, and was updated at this time.
    Firing(&'a str),
    /// Or there was no answer: an end that is reported too early is better than none.
    NotFiring,
}

/// The end of an alert at one Alertmanager. Times are those of the monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// Another VM or Prometheus may assert the alert: it is to be read.
    Unconfirmed {
        since: Duration,
        read_at: Duration,
        /// Of the last read.
        updated_at: Option<String>,
    },
    /// The alert is resolved.
    Confirmed { since: Duration },
}

impl End {
    pub(super) fn begin(now: Duration) -> Self {
        Self::Unconfirmed {
            since: now,
            read_at: now,
            updated_at: None,
        }
    }

    /// When it began, or was confirmed.
    pub(super) fn since(&self) -> Duration {
        match self {
            Self::Unconfirmed { since, .. } | Self::Confirmed { since } => *since,
        }
    }

    /// The alert was read. `is_asserted_elsewhere`: perhaps, within the interval.
    pub(super) fn read(
        &mut self,
        listed: Listed<'_>,
        is_asserted_elsewhere: bool,
        interval: Duration,
        now: Duration,
    ) {
        let Self::Unconfirmed {
            read_at,
            updated_at: last,
            ..
        } = self
        else {
            return;
        };
        if *read_at > now {
            return;
        }
        let is_first = last.is_none();
        let current = match listed {
            _ if is_first && !is_asserted_elsewhere => None,
            Listed::Firing(updated_at) => Some(updated_at),
            Listed::NotFiring => None,
        };
        match current {
            Some(current) if last.as_deref() != Some(current) => {
                *read_at = now.saturating_add(interval);
                *last = Some(current.to_owned());
            }
            _ => *self = Self::Confirmed { since: now },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Listed::*, *};

    const INTERVAL: Duration = Duration::from_secs(130);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The state after reads at these times.
    fn after(is_asserted_elsewhere: bool, reads: &[(u64, Listed<'_>)]) -> End {
        let mut end = End::begin(seconds(0));
        for (at, listed) in reads {
            end.read(*listed, is_asserted_elsewhere, INTERVAL, seconds(*at));
        }
        end
    }

    fn unconfirmed(read_at: u64, updated_at: &str) -> End {
        End::Unconfirmed {
            since: seconds(0),
            read_at: seconds(read_at),
            updated_at: Some(updated_at.to_owned()),
        }
    }

    #[test]
    fn an_alert_is_resolved_when_it_was_not_updated_for_130_seconds() {
        let confirmed = |since| End::Confirmed {
            since: seconds(since),
        };
        for (reads, expected) in [
            (&[(0, Firing("a"))][..], unconfirmed(130, "a")),
            // Too early: another alert of the event was due.
            (
                &[(0, Firing("a")), (129, Firing("a"))],
                unconfirmed(130, "a"),
            ),
            (&[(0, Firing("a")), (130, Firing("a"))], confirmed(130)),
            // Another VM pushes it, or Prometheus sends it.
            (
                &[(0, Firing("a")), (130, Firing("b"))],
                unconfirmed(260, "b"),
            ),
            (
                &[(0, Firing("a")), (130, Firing("b")), (260, Firing("b"))],
                confirmed(260),
            ),
            // Another VM or Prometheus has resolved it.
            (&[(0, NotFiring)], confirmed(0)),
            (&[(0, Firing("a")), (131, NotFiring)], confirmed(131)),
            (&[(0, NotFiring), (130, Firing("b"))], confirmed(0)),
        ] {
            assert_eq!(after(true, reads), expected, "{reads:?}");
        }
    }

    #[test]
    fn an_alert_that_nobody_else_asserts_is_resolved_at_the_first_read() {
        for listed in [Firing("a"), NotFiring] {
            let confirmed = End::Confirmed { since: seconds(0) };
            assert_eq!(after(false, &[(0, listed)]), confirmed, "{listed:?}");
        }
    }
}
