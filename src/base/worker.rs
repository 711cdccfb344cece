//! One thread for blocking work, such as disk I/O. It is started once: an event needs no new thread.
//!
//! tokio's `spawn_blocking` is not used: it aborts the process when the system has no thread left.

use std::{
    io,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use tokio::sync::oneshot;

/// Capacity of the queue. A disk that hangs fills it; further jobs are refused.
const QUEUE_LENGTH: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// Performs jobs one after the other, in the order of their submission. The thread ends with the last clone.
#[derive(Debug, Clone)]
pub struct Worker {
    jobs: SyncSender<Job>,
}

impl Worker {
    /// # Errors
    /// When the system has no thread left.
    pub fn start(name: &str) -> io::Result<Self> {
        let (jobs, queue) = sync_channel::<Job>(QUEUE_LENGTH);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || queue.into_iter().for_each(|job| job()))?;
        Ok(Self { jobs })
    }

    /// Queues a job without waiting. False when the queue is full.
    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.jobs.try_send(Box::new(job)).is_ok()
    }

    /// Queues a job and waits for its result; `None` when the queue is full. The job is done even if the caller stops
    /// waiting.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (result, done) = oneshot::channel();
        let job = move || {
            // The caller may have stopped waiting.
            result.send(job()).ok();
        };
        self.submit(job).then_some(done)?.await.ok()
    }

    /// Runs a job without effect: it is skipped if the caller stops waiting before its turn.
    pub(crate) async fn run_while_awaited<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (result, done) = oneshot::channel();
        let job = move || {
            if !result.is_closed() {
                result.send(job()).ok();
            }
        };
        self.submit(job).then_some(done)?.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use super::*;

    #[tokio::test]
    async fn jobs_run_in_the_order_of_their_submission() {
        let worker = Worker::start("test").unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for number in 0..100 {
            let seen = Arc::clone(&seen);
            assert!(worker.submit(move || seen.lock().unwrap().push(number)));
        }
        let all = worker.run(move || seen.lock().unwrap().clone()).await;
        assert_eq!(all.unwrap(), (0..100).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_job_that_hangs_lets_the_queue_fill_and_delays_no_caller() {
        let worker = Worker::start("test").unwrap();
        let (release, hang) = mpsc::channel::<()>();
        assert!(worker.submit(move || hang.recv().unwrap_or_default()));
        let accepted = (0..2 * QUEUE_LENGTH)
            .filter(|_| worker.submit(|| {}))
            .count();
        assert!((QUEUE_LENGTH - 1..=QUEUE_LENGTH).contains(&accepted));
        assert!(worker.run(|| ()).await.is_none());
        drop(release);
    }

    #[tokio::test]
    async fn a_job_whose_caller_has_stopped_waiting_is_skipped() {
        let worker = Worker::start("test").unwrap();
        let (release, hang) = mpsc::channel::<()>();
        assert!(worker.submit(move || hang.recv().unwrap_or_default()));
        let (ran, has_run) = mpsc::channel();
        let abandoned = worker.run_while_awaited(move || ran.send(()));
        let wait = tokio::time::timeout(std::time::Duration::ZERO, abandoned);
        assert!(wait.await.is_err());
        drop(release);
        assert_eq!(worker.run_while_awaited(|| 7).await, Some(7));
        assert!(has_run.recv().is_err(), "the abandoned job has run");
    }
}
