//! The last responses that contain every event. Requests within a short time share one body, so that many clients
//! neither hold a copy each nor cost a rendering each.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use super::api::After;
use crate::{
    base::time::{Moment, MonotonicTime},
    core::snapshot::Snapshot,
    http::server::HandlerResponse,
    outputs::metrics::exposition::Format,
};

/// Far below any scrape interval.
const MAX_AGE: Duration = Duration::from_millis(100);

/// Responses that are kept. Those to `/api/v1/transitions` have as many variants as clients ask for.
const MAX_ENTRIES: usize = 8;

/// What a response depends on besides the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) content: Content,
    pub(super) is_compressed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Metrics(Format),
    StatusPage,
    Events,
    Transitions(After),
}

/// At most one response for each variant.
#[derive(Debug, Default)]
pub(super) struct RecentResponses(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    variant: Variant,
    /// Does not keep the events of an old snapshot in memory.
    snapshot: Weak<Snapshot>,
    rendered_at: MonotonicTime,
    response: HandlerResponse,
}

impl RecentResponses {
    /// True if a response to this snapshot exists that is at most [`MAX_AGE`] old.
    pub(super) fn contains(&self, variant: Variant, snapshot: &Arc<Snapshot>, now: Moment) -> bool {
        let entries = self.current(snapshot, now);
        entries.iter().any(|entry| entry.variant == variant)
    }

    /// The response to this snapshot, at most [`MAX_AGE`] old; else the one that `render` returns.
    pub(super) fn get_or_render(
        &self,
        variant: Variant,
        snapshot: &Arc<Snapshot>,
        clock: impl Fn() -> Moment,
        render: impl FnOnce(Moment) -> Option<HandlerResponse>,
    ) -> Option<HandlerResponse> {
        let now = clock();
        let mut entries = self.current(snapshot, now);
        if let Some(entry) = entries.iter().find(|entry| entry.variant == variant) {
            return Some(entry.response.clone());
        }
        let response = render(now)?;
        if entries.len() >= MAX_ENTRIES {
            entries.remove(0);
        }
        entries.push(Entry {
            variant,
            snapshot: Arc::downgrade(snapshot),
            // Not `now`: a rendering that takes longer than `MAX_AGE` would never be shared.
            rendered_at: clock().monotonic,
            response: response.clone(),
        });
        Some(response)
    }

    /// Drops old responses: they have no use, and may be large.
    fn current(&self, snapshot: &Arc<Snapshot>, now: Moment) -> MutexGuard<'_, Vec<Entry>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| {
            let age = now.monotonic - entry.rendered_at;
            age < MAX_AGE && Weak::as_ptr(&entry.snapshot) == Arc::as_ptr(snapshot)
        });
        entries
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::outputs::web::{
        fixtures::{at, snapshot_after},
        reply,
    };

    #[test]
    fn a_rendering_that_takes_longer_than_the_maximum_age_is_shared() {
        let recent = RecentResponses::default();
        let snapshot = Arc::new(snapshot_after(&[]));
        let variant = Variant {
            content: Content::Events,
            is_compressed: false,
        };
        let (now, renderings) = (Cell::new(at(0)), Cell::new(0));
        let request = || {
            let render = |started: Moment| {
                renderings.set(renderings.get() + 1);
                now.set(started.after(Duration::from_secs(1)));
                Some(reply::ok(reply::JSON, "{}"))
            };
            recent.get_or_render(variant, &snapshot, || now.get(), render);
        };
        request();
        request();
        assert_eq!(renderings.get(), 1);
        now.set(now.get().after(MAX_AGE));
        request();
        assert_eq!(renderings.get(), 2);
    }
}
