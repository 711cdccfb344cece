//! The limits of the requests that approve an event.

use std::time::Duration;

use crate::{outbound::retry::exponential, snapshot::RequestError};

/// No poll is sent while an approval waits for its answer, and the end of the process waits for it too. IMDS answers at
/// once; without an answer the approval may have been accepted.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Failed attempts after which an event is no longer approved: with [`retry_delay`] about 9 minutes.
pub(crate) const MAX_ATTEMPTS: u32 = 40;

const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Also of a `Retry-After`.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(15);

/// The delay before the next attempt, which also waits for the next document. Without jitter: each VM has an IMDS of
/// its own.
pub(crate) fn retry_delay(error: &RequestError, consecutive_failures: u32) -> Duration {
    let delay = exponential(FIRST_RETRY_DELAY, MAX_RETRY_DELAY, consecutive_failures);
    let retry_after = error.retry_after.unwrap_or_default();
    delay.max(retry_after).min(MAX_RETRY_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::FailureReason;

    #[test]
    fn all_attempts_take_about_9_minutes_whatever_the_error() {
        for reason in FailureReason::ALL {
            let error = RequestError {
                reason,
                status: None,
                message: String::new(),
                retry_after: None,
                is_unsent: false,
            };
            let delays = (1..MAX_ATTEMPTS).map(|failures| retry_delay(&error, failures));
            let minutes = delays.sum::<Duration>().as_secs_f64() / 60.0;
            assert!((8.0..10.0).contains(&minutes), "{reason:?}: {minutes}");
        }
    }
}
