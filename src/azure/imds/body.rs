//! Reads the bodies of responses.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};

use crate::{
    azure::{FailureReason, RequestError},
    http::client::root_cause,
};

/// Upper bound of a body.
pub(super) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// Upper bound of the body of an error response.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads a body of at most `max_bytes`.
pub(super) async fn read_body(
    mut body: Incoming,
    max_bytes: usize,
) -> Result<Vec<u8>, RequestError> {
    let too_large = || {
        let message = format!("the body has more than {max_bytes} bytes, the limit for IMDS");
        RequestError::new(FailureReason::Body, message)
    };
    let content_length = body.size_hint().lower();
    if usize::try_from(content_length).map_or(true, |length| length > max_bytes) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|cause| {
            let (received, cause) = (bytes.len(), root_cause(&cause));
            let message = format!("the body was truncated after {received} bytes: {cause}");
            RequestError::new(FailureReason::Body, message)
        })?;
        let Some(chunk) = frame.data_ref() else {
            continue;
        };
        if bytes.len() + chunk.len() > max_bytes {
            return Err(too_large());
        }
        bytes.extend_from_slice(chunk);
    }
    Ok(bytes)
}

/// The body of a response that is classified by its status; empty if it does not arrive in time.
pub(super) async fn error_body(body: Incoming) -> Vec<u8> {
    let read = read_body(body, MAX_ERROR_BYTES);
    match tokio::time::timeout(ERROR_BODY_TIMEOUT, read).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}
