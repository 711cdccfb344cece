//! Timers of the poll loop.
//!
//! A timer of tokio of about a second wakes an idle process twice, because it is first rounded down to a slot of 64 ms,
//! and a new timer that is the next one to end interrupts the runtime's wait. On Linux, a timerfd does neither. Polls
//! are nearly all that an idle exporter does, and each wake-up costs more than the work that follows
//! (`docs/performance.md`).

use std::{future::Future, pin::Pin, time::Duration};

/// Measures one time at a time.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    /// Made by the first use, which is inside of the runtime.
    #[cfg(target_os = "linux")]
    timer: Option<linux::Timer>,
}

impl Alarm {
    /// Returns after `duration`.
    pub(crate) async fn sleep(&mut self, duration: Duration) {
        if duration.is_zero() {
            return tokio::task::yield_now().await;
        }
        #[cfg(target_os = "linux")]
        if self.sleep_with_timerfd(duration).await.is_ok() {
            return;
        }
        tokio::time::sleep(duration).await;
    }

    /// The output of `future`; `None` if it has none after `limit`. It is pinned, because a future that is moved into
    /// another one makes that one as large as both.
    pub(crate) async fn timeout<T>(
        &mut self,
        limit: Duration,
        future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.sleep(limit) => None,
        }
    }

    /// Fails where the system has no file descriptor left, for example.
    #[cfg(target_os = "linux")]
    async fn sleep_with_timerfd(&mut self, duration: Duration) -> std::io::Result<()> {
        let timer = match self.timer.take() {
            Some(timer) => timer,
            None => linux::Timer::new()?,
        };
        self.timer.insert(timer).wait(duration).await
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{io, time::Duration};

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::net::unix::pipe::Receiver;

    /// A timerfd is read like a pipe: it blocks until the time has passed, then returns eight bytes. tokio has no other
    /// reader for a descriptor without unsafe code.
    #[derive(Debug)]
    pub(super) struct Timer(Receiver);

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self(Receiver::from_owned_fd_unchecked(timer)?))
        }

        /// Begins anew: what is left of an earlier time is forgotten. A zero would stop the timer.
        pub(super) async fn wait(&self, duration: Duration) -> io::Result<()> {
            let once = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec::try_from(duration).map_err(io::Error::other)?,
            };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
            loop {
                self.0.readable().await?;
                match self.0.try_read(&mut [0; 8]) {
                    // It was readable because of an earlier time.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read.map(drop),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        pin::pin,
    };

    use tokio::{task::yield_now, time::sleep};

    use super::*;
    use crate::time::Clock;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn a_time_that_was_abandoned_does_not_end_the_next_one() {
        let clock = Clock::start();
        let mut alarm = Alarm::default();
        let after_its_end = sleep(SHORT * 2);
        // The alarm begins, nobody waits for it any more, and it ends.
        let abandoned = alarm.timeout(SHORT, pin!(yield_now())).await;
        assert_eq!(abandoned, Some(()));
        after_its_end.await;
        let before = clock.now().monotonic;
        let next = alarm.timeout(SHORT * 3, pin!(pending::<()>())).await;
        assert_eq!(next, None);
        assert!(clock.now().monotonic >= before + SHORT * 3);
    }

    #[tokio::test]
    async fn a_result_ends_a_longer_time() {
        let mut alarm = Alarm::default();
        let result = alarm.timeout(LONG, pin!(sleep(SHORT))).await;
        assert_eq!(result, Some(()));
    }

    #[tokio::test]
    async fn a_result_that_is_there_needs_no_time() {
        let mut alarm = Alarm::default();
        let result = alarm.timeout(Duration::ZERO, pin!(ready(3))).await;
        assert_eq!(result, Some(3));
        let late = alarm.timeout(Duration::ZERO, pin!(pending::<()>())).await;
        assert_eq!(late, None);
        alarm.sleep(Duration::ZERO).await;
    }
}
