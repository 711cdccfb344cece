//! The requests to IMDS: one at a time, each when it is due. Each ends with an input for the engine.

use std::{
    future::{Future, pending},
    pin::Pin,
    time::Duration,
};

use tokio::time::sleep;

use crate::{
    azure::{
        RequestError,
        event::EventId,
        imds::{
            Client,
            identity::IdentitySchedule,
            poll_timing::{MIN_REQUEST_INTERVAL, PollTimeouts, next_delay},
        },
    },
    base::time::{Clock, Moment},
    core::{
        approval::REQUEST_TIMEOUT,
        engine::{Engine, Input},
        pause::lateness,
    },
    program::config::ImdsSettings,
};

pub(super) struct ImdsRequests {
    settings: ImdsSettings,
    clock: Clock,
    /// `None` while a request waits or runs, and after [`Self::stop`].
    client: Option<Client>,
    /// A request, with the wait before it.
    running: Option<(ImdsRequest, Completion)>,
    timeouts: PollTimeouts,
    last_poll: Option<LastPoll>,
    consecutive_failures: u32,
    identity_schedule: IdentitySchedule,
}

struct LastPoll {
    began: Moment,
    error: Option<RequestError>,
}

#[derive(Clone)]
enum ImdsRequest {
    Identify,
    Poll { is_long: bool },
    Approve(Vec<EventId>),
}

/// Gives back the client, and says when the request began.
type Completion = Pin<Box<dyn Future<Output = (Client, Moment, Input)> + Send>>;

impl ImdsRequests {
    pub(super) fn new(client: Client, settings: ImdsSettings, clock: Clock) -> Self {
        Self {
            identity_schedule: IdentitySchedule::new(
                settings.partial_identity_interval,
                settings.vm_name.is_some(),
            ),
            settings,
            clock,
            client: Some(client),
            running: None,
            timeouts: PollTimeouts::default(),
            last_poll: None,
            consecutive_failures: 0,
        }
    }

    /// Waits for the end of the request; never ready without one.
    pub(super) async fn completed(&mut self) -> Input {
        let Some((_, completion)) = &mut self.running else {
            return pending().await;
        };
        let since = self.clock.now();
        let (client, began, mut input) = completion.await;
        if let Input::Polled { late, .. } = &mut input {
            // Not the time for which the event loop did not wait, as while a disk hangs.
            late.by_monotonic = late.by_monotonic.min(began.awake - since.awake);
        }
        self.client = Some(client);
        if let Some((request, _)) = self.running.take() {
            self.record(&request, began, &input);
        }
        input
    }

    /// Those of the request that has completed.
    pub(super) fn take_repetitions(&mut self) -> u64 {
        let client = self.client.as_mut();
        client.map_or(0, |client| std::mem::take(&mut client.repetitions))
    }

    /// An approval is not cancelled: the end of the process waits for the answer.
    pub(super) fn is_approving(&self) -> bool {
        matches!(self.running, Some((ImdsRequest::Approve(_), _)))
    }

    /// The next poll requests and reads the whole document.
    pub(super) fn forget_document(&mut self) {
        if let Some(client) = &mut self.client {
            client.forget_document();
        }
    }

    /// Cancels the request, and begins no other one.
    pub(super) fn stop(&mut self) {
        self.client = None;
        self.running = None;
    }

    pub(super) fn approve(&mut self, ids: Vec<EventId>) {
        self.begin(ImdsRequest::Approve(ids), Duration::ZERO);
    }

    /// Begins to wait for the next poll, or for the next request of the identity, unless another request runs.
    pub(super) fn schedule(&mut self, engine: &Engine) {
        if self.client.is_none() {
            return;
        }
        let now = self.clock.now();
        let delay = self
            .last_poll
            .as_ref()
            .map_or(Duration::ZERO, |last| self.poll_delay(last, engine, now));
        let at = now.monotonic + delay;
        if self.identity_schedule.is_due(at) {
            self.begin(ImdsRequest::Identify, delay);
        } else {
            let is_long = self.timeouts.is_long(at);
            self.begin(ImdsRequest::Poll { is_long }, delay);
        }
    }

    /// The time until the next poll. A request that ended since the last poll is part of it.
    fn poll_delay(&self, last: &LastPoll, engine: &Engine, now: Moment) -> Duration {
        let busy = elapsed(last.began, now);
        let failed = last.error.as_ref();
        let failed = failed.map(|error| (error, self.consecutive_failures));
        let delay = next_delay(failed, busy, engine.poll().interval, fastrand::f64());
        let due = engine
            .approval_due_in(now)
            .filter(|_| last.error.is_none())
            .map(|due| due.max(MIN_REQUEST_INTERVAL));
        due.map_or(delay, |due| delay.min(due))
    }

    /// Begins a request after a delay, unless another one runs.
    fn begin(&mut self, request: ImdsRequest, delay: Duration) {
        let Some(mut client) = self.client.take() else {
            return;
        };
        let (clock, next) = (self.clock, request.clone());
        let timeout = match request {
            ImdsRequest::Poll { is_long: true } => self.settings.first_timeout,
            ImdsRequest::Poll { is_long: false } | ImdsRequest::Identify => self.settings.timeout,
            ImdsRequest::Approve(_) => self.settings.timeout.min(REQUEST_TIMEOUT),
        };
        let completion = Box::pin(async move {
            let since = clock.now();
            sleep(delay).await;
            let began = clock.now();
            let late = lateness(since, began, delay);
            let took = || elapsed(began, clock.now());
            let input = match next {
                ImdsRequest::Identify => Input::Identified {
                    result: client.identify(timeout).await,
                    took: took(),
                },
                ImdsRequest::Poll { .. } => Input::Polled {
                    result: client.poll(timeout).await,
                    took: took(),
                    late,
                },
                ImdsRequest::Approve(ids) => Input::ApprovalSent {
                    // Only the preview's approvals name an incarnation, and no policy approves its events.
                    result: client.approve(&ids, None, timeout).await,
                    took: took(),
                    ids,
                },
            };
            (client, began, input)
        });
        self.running = Some((request, completion));
    }

    fn record(&mut self, request: &ImdsRequest, began: Moment, input: &Input) {
        match (request, input) {
            (ImdsRequest::Poll { is_long }, Input::Polled { result, took, .. }) => {
                let error = result.as_ref().err().cloned();
                let reason = error.as_ref().map(|error| error.reason);
                let ended = began.monotonic + *took;
                self.timeouts.record(*is_long, reason, ended);
                self.consecutive_failures = match error {
                    Some(_) => self.consecutive_failures.saturating_add(1),
                    None => 0,
                };
                self.last_poll = Some(LastPoll { began, error });
            }
            (ImdsRequest::Identify, Input::Identified { result, .. }) => {
                let now = self.clock.now().monotonic;
                self.identity_schedule.record(result, fastrand::f64(), now);
                // The poll that was due follows at once.
                self.last_poll = None;
            }
            _ => {}
        }
    }
}

fn elapsed(began: Moment, now: Moment) -> Duration {
    now.monotonic - began.monotonic
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::time::timeout;

    use super::*;
    use crate::{
        azure::{api_version::ApiVersion, imds::Endpoint},
        core::pause::Lateness,
    };

    const DELAY: Duration = Duration::from_millis(10);
    const BLOCKED: Duration = Duration::from_millis(400);

    #[expect(
        clippy::disallowed_methods,
        reason = "the event loop is to stand still"
    )]
    fn block() {
        thread::sleep(BLOCKED);
    }

    fn late(input: &Input) -> Lateness {
        match input {
            Input::Polled { late, .. } => *late,
            _ => panic!("{input:?}"),
        }
    }

    #[tokio::test]
    async fn a_poll_is_late_by_the_time_for_which_the_event_loop_waited_for_it() {
        let version = ApiVersion::parse("2020-07-01").unwrap();
        // No server listens there.
        let endpoint = Endpoint::new("http://127.0.0.1:9", &version).unwrap();
        let clock = Clock::start();
        let client = Client::new(&endpoint, clock).unwrap();
        let settings = ImdsSettings {
            endpoint,
            api_version: version,
            timeout: BLOCKED,
            first_timeout: BLOCKED,
            partial_identity_interval: BLOCKED,
            vm_name: None,
        };
        let mut requests = ImdsRequests::new(client, settings, clock);
        let poll = || ImdsRequest::Poll { is_long: false };
        requests.begin(poll(), DELAY);
        let (input, ()) = tokio::join!(requests.completed(), async { block() });
        assert!(late(&input).by_monotonic + DELAY >= BLOCKED);

        requests.begin(poll(), DELAY);
        let wait = timeout(Duration::ZERO, requests.completed());
        assert!(wait.await.is_err());
        block();
        let late = late(&requests.completed().await);
        assert!(late.by_any_clock + DELAY >= BLOCKED);
        assert!(late.by_monotonic < BLOCKED / 2, "{late:?}");
    }
}
