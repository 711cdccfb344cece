//! The end of an alert: whether this exporter may resolve it. Pure.
//!
//! All VMs that an event names push the same alert, Prometheus sends it for those that do not push, and Alertmanager
//! takes the latest message. If one VM sees the end too early, for example in an empty document, it must not resolve
//! what the others still assert. Alertmanager sets `updatedAt` at each message, so an alert with the same
//! `updatedAt` as 130 seconds before is asserted by none. The two values are compared with each other and not with a
//! clock.

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
}

/// The end of an alert at one Alertmanager. Times are those of the monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// Another VM may have the event: the alert is to be read.
    Unconfirmed {
        read_at: Duration,
        /// Of the last read.
        updated_at: Option<String>,
    },
    /// The alert is resolved.
    Confirmed { since: Duration },
}

impl End {
    pub(super) fn begin(names_only_this_vm: bool, now: Duration) -> Self {
        if names_only_this_vm {
            Self::Confirmed { since: now }
        } else {
            Self::Unconfirmed {
                read_at: now,
                updated_at: None,
            }
        }
    }

    /// The alert was read. `updated_at` is `None` if it does not fire, or could not be read: an end that is reported
    /// too early is better than none.
    pub(super) fn read(&mut self, updated_at: Option<&str>, interval: Duration, now: Duration) {
        let Self::Unconfirmed {
            read_at,
            updated_at: last,
        } = self
        else {
            return;
        };
        if *read_at > now {
            return;
        }
        match updated_at {
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
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(130);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// The state after reads at these times.
    fn after(reads: &[(u64, Option<&str>)]) -> End {
        let mut end = End::begin(false, seconds(0));
        for (at, updated_at) in reads {
            end.read(*updated_at, INTERVAL, seconds(*at));
        }
        end
    }

    fn unconfirmed(read_at: u64, updated_at: &str) -> End {
        End::Unconfirmed {
            read_at: seconds(read_at),
            updated_at: Some(updated_at.to_owned()),
        }
    }

    #[test]
    fn an_alert_of_this_vm_alone_is_resolved_at_once() {
        let end = End::begin(true, seconds(7));
        assert_eq!(end, End::Confirmed { since: seconds(7) });
    }

    #[test]
    fn an_alert_of_several_vms_is_resolved_when_it_was_not_updated_for_130_seconds() {
        let confirmed = |since| End::Confirmed {
            since: seconds(since),
        };
        for (reads, expected) in [
            (&[(0, Some("a"))][..], unconfirmed(130, "a")),
            // Too early: another alert of the event was due.
            (&[(0, Some("a")), (129, Some("a"))], unconfirmed(130, "a")),
            (&[(0, Some("a")), (130, Some("a"))], confirmed(130)),
            // Another VM pushes it, or Prometheus sends it.
            (&[(0, Some("a")), (130, Some("b"))], unconfirmed(260, "b")),
            (
                &[(0, Some("a")), (130, Some("b")), (260, Some("b"))],
                confirmed(260),
            ),
            // Another VM has resolved it, or it could not be read.
            (&[(0, None)], confirmed(0)),
            (&[(0, Some("a")), (131, None)], confirmed(131)),
            (&[(0, None), (130, Some("b"))], confirmed(0)),
        ] {
            assert_eq!(after(reads), expected, "{reads:?}");
        }
    }
}
