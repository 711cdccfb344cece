//! The HTTP client for IMDS.
//!
//! A 304 is accepted only if the request carried the `ETag` of the last document. Without an `ETag`, the same bytes
//! again are the same answer. A 200 with an empty body, which has been observed in production, is a failure at first;
//! after a minute of only empty bodies it is an empty document.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Response, StatusCode, Uri,
    body::{Body as _, Incoming},
    header::{self, HeaderValue},
};
use tokio::time::sleep;

use super::{
    cadence,
    connection::{ImdsConnection, ImdsRequest},
    empty::EmptyBodies,
    endpoint::{Endpoint, EndpointError},
    error::{self, Error},
    error_body,
    known_document::KnownDocument,
};
use crate::{
    document::{self, Anomalies, AnomalyKind, Answer, Document},
    event::EventId,
    outbound::retry::retry_after,
    time::{Clock, Moment},
};

/// Upper bound of a body.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// Upper bound of the body of an error response.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends one request at a time to one IMDS.
#[derive(Debug)]
pub struct Client {
    connection: ImdsConnection,
    endpoint: Endpoint,
    known: KnownDocument,
    empty_bodies: EmptyBodies,
    /// Monotonic start time of the last request.
    last_start: Option<Duration>,
}

impl Client {
    /// A rustls crypto provider must be installed in the process.
    pub fn new(endpoint: &Endpoint) -> Result<Self, EndpointError> {
        Ok(Self {
            connection: ImdsConnection::new(endpoint)?,
            endpoint: endpoint.clone(),
            known: KnownDocument::default(),
            empty_bodies: EmptyBodies::default(),
            last_start: None,
        })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The next poll requests and reads the whole document, even if it is the same as the last one.
    pub(crate) fn forget_document(&mut self) {
        self.known.forget();
    }

    /// Requests the document.
    pub async fn poll(&mut self, timeout: Duration, clock: Clock) -> Result<Answer, Error> {
        let result = self.request_document(timeout, clock).await;
        self.accept_empty_bodies(result, clock.now())
    }

    fn accept_empty_bodies(
        &mut self,
        result: Result<Answer, Error>,
        now: Moment,
    ) -> Result<Answer, Error> {
        if !matches!(result, Err(Error::EmptyBody)) {
            self.empty_bodies.reset();
            return result;
        }
        if !self.empty_bodies.record(now) {
            return result;
        }
        // A 304 to the old ETag, or the old document, would restore no event.
        self.forget_document();
        let mut anomalies = Anomalies::default();
        anomalies.add(
            AnomalyKind::EmptyBody,
            "only empty bodies for a minute: accepted as no events",
        );
        Ok(Answer::Document {
            document: Document::default(),
            anomalies,
        })
    }

    /// Approves one event: it may start before its `NotBefore`, on every VM that it names. After an error the document
    /// must be polled before another attempt.
    pub async fn approve(
        &mut self,
        id: &EventId,
        timeout: Duration,
        clock: Clock,
    ) -> Result<(), Error> {
        let mut body = serde_json::json!({ "StartRequests": [{ "EventId": id.as_str() }] });
        if let (true, Some(incarnation), Some(members)) = (
            self.endpoint.approvals_name_incarnation,
            self.known.incarnation,
            body.as_object_mut(),
        ) {
            members.insert(
                "DocumentIncarnation".to_owned(),
                incarnation.to_string().into(),
            );
        }
        let mut request = self.connection.request(&self.endpoint.events);
        *request.method_mut() = Method::POST;
        *request.body_mut() = Full::from(body.to_string());
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        let response = self.send(request, timeout, clock).await?;
        if response.status() != StatusCode::OK {
            return Err(error_for_status(response, clock).await);
        }
        // The content is undocumented; reading it makes the connection reusable.
        error_body(response.into_body()).await;
        Ok(())
    }

    async fn request_document(&mut self, timeout: Duration, clock: Clock) -> Result<Answer, Error> {
        let mut request = self.connection.request(&self.endpoint.events);
        if let Some(etag) = &self.known.etag {
            let headers = request.headers_mut();
            headers.insert(header::IF_NONE_MATCH, etag.clone());
        }
        let mut response = self.send(request, timeout, clock).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if self.known.etag.is_some() => return Ok(Answer::Unchanged),
            _ => return Err(error_for_status(response, clock).await),
        }
        let etag = response.headers_mut().remove(header::ETAG);
        let body = self.read(response.into_body(), timeout, clock).await?;
        if body.trim_ascii().is_empty() {
            return Err(Error::EmptyBody);
        }
        if self.known.has_body(&body) {
            self.known.etag = etag;
            return Ok(Answer::Unchanged);
        }
        let (document, anomalies) =
            document::parse(&body).map_err(|error| Error::from_parse_error(error, &body))?;
        self.known.etag = etag;
        self.known.incarnation = document.incarnation;
        self.known.replace_body(body);
        Ok(Answer::Document {
            document,
            anomalies,
        })
    }

    /// The body of a 200.
    pub(super) async fn get(
        &mut self,
        uri: &Uri,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Vec<u8>, Error> {
        let request = self.connection.request(uri);
        let response = self.send(request, timeout, clock).await?;
        if response.status() == StatusCode::OK {
            self.read(response.into_body(), timeout, clock).await
        } else {
            Err(error_for_status(response, clock).await)
        }
    }

    /// Sends one request, at least [`cadence::MIN_REQUEST_INTERVAL`] after the previous one.
    async fn send(
        &mut self,
        request: ImdsRequest,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Response<Incoming>, Error> {
        let since = self.since_last_start(clock);
        let delay = since.map_or(Duration::ZERO, |since| {
            cadence::MIN_REQUEST_INTERVAL.saturating_sub(since)
        });
        // `sleep(0)` takes a millisecond.
        if !delay.is_zero() {
            sleep(delay).await;
        }
        self.last_start = Some(clock.now().monotonic);
        let sent = tokio::time::timeout(timeout, self.connection.send(request)).await;
        let response = sent.unwrap_or_else(|_| Err(self.timeout_error(timeout)))?;
        if response.status() == StatusCode::MISDIRECTED_REQUEST {
            self.connection.close();
        }
        Ok(response)
    }

    /// Reads the body of the last response within what remains of `timeout`.
    async fn read(
        &mut self,
        body: Incoming,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Vec<u8>, Error> {
        let since = self.since_last_start(clock).unwrap_or_default();
        let left = timeout.saturating_sub(since);
        let read = tokio::time::timeout(left, read_body(body, MAX_BODY_BYTES)).await;
        read.unwrap_or_else(|_| Err(self.timeout_error(timeout)))
    }

    fn since_last_start(&self, clock: Clock) -> Option<Duration> {
        let last_start = self.last_start?;
        Some(clock.now().monotonic.saturating_sub(last_start))
    }

    fn timeout_error(&self, timeout: Duration) -> Error {
        let base = self.endpoint.base().to_owned();
        if self.connection.is_opening() {
            Error::ConnectTimeout { base }
        } else {
            Error::Timeout {
                base,
                after: timeout,
            }
        }
    }
}

/// Reads a body of at most `max_bytes`.
async fn read_body(mut body: Incoming, max_bytes: usize) -> Result<Vec<u8>, Error> {
    let content_length = body.size_hint().lower();
    if usize::try_from(content_length).map_or(true, |length| length > max_bytes) {
        return Err(Error::TooLarge { max_bytes });
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::Truncated {
            received: bytes.len(),
            cause: error::root_cause(&error),
        })?;
        let Some(chunk) = frame.data_ref() else {
            continue;
        };
        if bytes.len() + chunk.len() > max_bytes {
            return Err(Error::TooLarge { max_bytes });
        }
        bytes.extend_from_slice(chunk);
    }
    Ok(bytes)
}

/// The body of a response that is classified by its status; empty if it does not arrive in time.
async fn error_body(body: Incoming) -> Vec<u8> {
    let read = read_body(body, MAX_ERROR_BYTES);
    match tokio::time::timeout(ERROR_BODY_TIMEOUT, read).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Classifies a response with an unexpected status.
async fn error_for_status(response: Response<Incoming>, clock: Clock) -> Error {
    let code = response.status();
    let status = code.as_u16();
    let headers = response.headers();
    match status {
        304 => return Error::UnexpectedNotModified,
        300..=399 => {
            let location = headers.get(header::LOCATION).map(HeaderValue::as_bytes);
            let location = location.map_or("nowhere".into(), String::from_utf8_lossy);
            return Error::Redirect {
                status,
                location: error::excerpt(&location),
            };
        }
        _ => {}
    }
    let retry_after = retry_after(headers, clock.now().wall);
    let cloud = error_body::other_cloud(headers);
    let body = error_body(response.into_body()).await;
    let message = format!("{}{cloud}", error_body::describe_body(&body));
    match status {
        410 => Error::Gone,
        429 => Error::Throttled { retry_after },
        400..=499 => Error::ClientError { status, message },
        500..=599 => Error::ServerError { status, message },
        _ => Error::ForeignStatus { status, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api_version::RequestedVersion, time::Timestamp};

    #[test]
    fn a_minute_of_empty_bodies_is_an_empty_document_and_forgets_the_last_one() {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let endpoint = Endpoint::new(
            "http://127.0.0.1",
            &RequestedVersion::parse("2020-07-01").unwrap(),
        )
        .unwrap();
        let mut client = Client::new(&endpoint).unwrap();
        client.known.etag = Some(HeaderValue::from_static("\"7\""));
        client.known.replace_body(b"{}".to_vec());
        let moment = |seconds| {
            Moment {
                wall: Timestamp::UNIX_EPOCH,
                monotonic: Duration::ZERO,
            }
            .after(Duration::from_secs(seconds))
        };
        for second in 0..60 {
            let result = client.accept_empty_bodies(Err(Error::EmptyBody), moment(second));
            assert_eq!(result, Err(Error::EmptyBody), "{second}");
            assert!(client.known.etag.is_some(), "{second}");
            assert!(client.known.has_body(b"{}"), "{second}");
        }
        let Ok(Answer::Document {
            document,
            anomalies,
        }) = client.accept_empty_bodies(Err(Error::EmptyBody), moment(60))
        else {
            panic!("not accepted");
        };
        assert_eq!(document, Document::default());
        assert!(document.is_complete());
        let kinds: Vec<_> = anomalies
            .described
            .iter()
            .map(|anomaly| anomaly.kind)
            .collect();
        assert_eq!(kinds, [AnomalyKind::EmptyBody]);
        assert_eq!(client.known.etag, None);
        assert!(!client.known.has_body(b"{}"), "the old document is news");

        let failed = client.accept_empty_bodies(Err(Error::Gone), moment(61));
        assert_eq!(failed, Err(Error::Gone));
        let again = client.accept_empty_bodies(Err(Error::EmptyBody), moment(62));
        assert_eq!(again, Err(Error::EmptyBody), "the minute restarts");
    }
}
