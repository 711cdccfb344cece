//! Counts the requests to the simulated metadata service by their result.

use hyper::{Method, StatusCode};

use super::imds_api::{self, Action};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RequestCounts {
    documents: u64,
    unchanged: u64,
    approvals: u64,
    metadata: u64,
    refused: u64,
    unanswered: u64,
}

impl RequestCounts {
    pub(super) fn count(&mut self, method: &Method, path: &str, action: &Action) {
        let counter = match action {
            Action::Hang | Action::CloseConnection => &mut self.unanswered,
            // Counted when it is handled again.
            Action::Delay(_) => return,
            Action::Respond(response) => match (response.status, imds_api::is_events(path)) {
                (StatusCode::NOT_MODIFIED, _) => &mut self.unchanged,
                (StatusCode::OK, true) if method == Method::POST => &mut self.approvals,
                (StatusCode::OK, true) => &mut self.documents,
                (StatusCode::OK, false) => &mut self.metadata,
                _ => &mut self.refused,
            },
        };
        *counter += 1;
    }

    /// Each count with its name in the JSON and on the page.
    pub(super) fn all(&self) -> [(&'static str, u64); 6] {
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
