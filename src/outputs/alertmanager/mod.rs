//! Pushes the events that name this VM to Alertmanager. The path through Prometheus (scrape, evaluation, `group_wait`)
//! can take longer than the 30 seconds of a Spot eviction.
//!
//! `alert` is pure and maps a snapshot to alerts; `queue` decides which of them are sent; `push` sends them. A pushed
//! alert has the labels of the same alert of `alerts/scheduled-events.rules.yml`, so that Alertmanager deduplicates the
//! two.
//!
//! Invariants: labels do not change during the life of an event; a failed poll resolves no alert; an alert is resolved
//! after the rules have ended it; a slow Alertmanager does not delay another.

pub(crate) mod alert;
mod push;
mod queue;
mod response;
mod target;

pub use crate::http::client::{
    Credentials,
    tls::{ClientCertificate, TlsFiles},
};
pub(crate) use alert::ALERT_LABELS;
pub use alert::Alert;
pub(crate) use push::AlertPusher;
pub use queue::AlertQueue;
pub use target::{PushTiming, Target, TargetError};
