//! Failed requests to IMDS: every failure has a reason and a helpful message, and none yields a document.

mod body;
mod status;
mod transport;

use std::time::Duration;

use azure_scheduled_events_exporter::{FailureReason, RequestError};

use crate::support::{DEADLINE, FakeImds, Reply, client_of};

const NOTHING: &str = r#"{"DocumentIncarnation":1,"Events":[]}"#;
const LOGIN_PAGE: &str = "\n<!DOCTYPE html><html><body>Please log in</body></html>";

async fn poll_error(imds: &FakeImds, timeout: Duration) -> RequestError {
    let mut client = client_of(&imds.base());
    match client.poll(timeout).await {
        Err(error) => error,
        Ok(answer) => panic!("not an error: {answer:?}"),
    }
}

/// Polls once for each reply and checks the reason and a part of the message.
async fn check(rows: impl IntoIterator<Item = (Reply, FailureReason, &'static str)>) {
    for (reply, reason, expected) in rows {
        let what = format!("{reply:?}");
        let imds = FakeImds::scripted([reply]).await;
        let error = poll_error(&imds, DEADLINE).await;
        let shown = what.chars().take(600).collect::<String>();
        assert_eq!(error.reason, reason, "{error}\n{shown}");
        let message = error.to_string();
        assert!(
            message.contains(expected),
            "{message:?} lacks {expected:?}\n{shown}"
        );
        assert!(message.len() < 1_000, "{message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}
