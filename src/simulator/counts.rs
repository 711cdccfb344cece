//! How many requests the simulated service has answered, and how.

use hyper::{Method, StatusCode};

use super::imds_api::{self, Outcome};

/// Requests below `/metadata`, each counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    documents: u64,
    unchanged: u64,
    approvals: u64,
    metadata: u64,
    refused: u64,
    unanswered: u64,
}

impl RequestCounts {
    /// Counts one request by what became of it.
    pub fn count(&mut self, method: &Method, path: &str, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Hang | Outcome::Reset => &mut self.unanswered,
            // It is counted when it is answered.
            Outcome::Later(_) => return,
            Outcome::SimulatorResponse(reply) => match (reply.status, imds_api::is_events(path)) {
                (StatusCode::NOT_MODIFIED, _) => &mut self.unchanged,
                (StatusCode::OK, true) if method == Method::POST => &mut self.approvals,
                (StatusCode::OK, true) => &mut self.documents,
                (StatusCode::OK, false) => &mut self.metadata,
                _ => &mut self.refused,
            },
        };
        *counter += 1;
    }

    /// Each with its name.
    pub fn all(&self) -> [(&'static str, u64); 6] {
        [
            ("documents", self.documents),
            ("unchanged", self.unchanged),
            ("approvals", self.approvals),
            ("metadata", self.metadata),
            ("refused", self.refused),
            ("unanswered", self.unanswered),
        ]
    }
}
