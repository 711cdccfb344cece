//! The HTTP client for IMDS.
//!
//! A 304 is accepted only if the request carried the `ETag` of the last document. Without an `ETag`, the same bytes
//! again are the same answer. A 200 with an empty body, which has been observed in production, is a failure at first;
//! after a minute of only empty bodies it is an empty document.

use std::time::Duration;

use http_body_util::Full;
use hyper::{
    Method, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
    http::response::Parts,
};
use serde_json::json;
use tokio::time::sleep;

use super::{
    backoff,
    body::{MAX_BODY_BYTES, error_body, read_body},
    connection::{ImdsConnection, OutgoingRequest},
    empty::EmptyBodies,
    endpoint::{Endpoint, EndpointError},
    error::{self, RequestKind},
    known_document::KnownDocument,
};
use crate::{
    azure::{
        FailureReason, RequestError,
        document::{self, Anomalies, AnomalyKind, Answer, Document},
        event::EventId,
    },
    base::time::{Clock, Moment, MonotonicTime},
};

/// Sends one request at a time to one IMDS.
#[derive(Debug)]
pub struct Client {
    connection: ImdsConnection,
    endpoint: Endpoint,
    known: KnownDocument,
    empty_bodies: EmptyBodies,
    has_read_events: bool,
    pub(super) has_read_metadata: bool,
    /// The start of the last request.
    last_start: Option<MonotonicTime>,
}

impl Client {
    /// A rustls crypto provider must be installed in the process.
    pub fn new(endpoint: &Endpoint) -> Result<Self, EndpointError> {
        Ok(Self {
            connection: ImdsConnection::new(endpoint)?,
            endpoint: endpoint.clone(),
            known: KnownDocument::default(),
            empty_bodies: EmptyBodies::default(),
            has_read_events: false,
            has_read_metadata: false,
            last_start: None,
        })
    }

    /// The next poll requests and reads the whole document, even if it is the same as the last one.
    pub(crate) fn forget_document(&mut self) {
        self.known.forget();
    }

    /// Requests the document.
    pub async fn poll(&mut self, timeout: Duration, clock: Clock) -> Result<Answer, RequestError> {
        let answer = self.request_document(timeout, clock).await;
        let Some(answer) = answer.transpose() else {
            return self.accept_empty_body(clock.now());
        };
        self.empty_bodies.reset();
        self.has_read_events |= answer.is_ok();
        answer
    }

    fn accept_empty_body(&mut self, now: Moment) -> Result<Answer, RequestError> {
        if !self.empty_bodies.record(now) {
            let message = "HTTP 200 with an empty body; known events are kept";
            return Err(RequestError::new(FailureReason::Body, message));
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

    /// Approves events: they may start before their `NotBefore`, on every VM that they name. After an error the
    /// document must be polled before another attempt.
    pub async fn approve(
        &mut self,
        ids: &[EventId],
        timeout: Duration,
        clock: Clock,
    ) -> Result<(), RequestError> {
        let requests = ids.iter().map(|id| json!({ "EventId": id.as_str() }));
        let requests: Vec<_> = requests.collect();
        let is_named = self.endpoint.approvals_name_incarnation;
        let body = match self.known.incarnation.filter(|_| is_named) {
            Some(number) => {
                json!({ "StartRequests": requests, "DocumentIncarnation": number.to_string() })
            }
            None => json!({ "StartRequests": requests }),
        };
        let mut request = self.connection.request(&self.endpoint.events);
        *request.method_mut() = Method::POST;
        *request.body_mut() = Full::from(body.to_string());
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        let response = self.send(request, timeout, clock).await?;
        if response.status() != StatusCode::OK {
            return Err(self
                .status_error(response, RequestKind::Approval, clock)
                .await);
        }
        // The content is undocumented; reading it makes the connection reusable.
        error_body(response.into_body()).await;
        Ok(())
    }

    /// `None` for an empty body.
    async fn request_document(
        &mut self,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Option<Answer>, RequestError> {
        let mut request = self.connection.request(&self.endpoint.events);
        if let Some(etag) = &self.known.etag {
            let headers = request.headers_mut();
            headers.insert(header::IF_NONE_MATCH, etag.clone());
        }
        let mut response = self.send(request, timeout, clock).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if self.known.etag.is_some() => {
                return Ok(Some(Answer::Unchanged));
            }
            _ => {
                return Err(self
                    .status_error(response, RequestKind::Events, clock)
                    .await);
            }
        }
        let etag = response.headers_mut().remove(header::ETAG);
        let body = self.read(response.into_body(), timeout, clock).await?;
        if body.trim_ascii().is_empty() {
            return Ok(None);
        }
        if self.known.has_body(&body) {
            self.known.etag = etag;
            return Ok(Some(Answer::Unchanged));
        }
        let (document, anomalies) =
            document::parse(&body).map_err(|error| error::parse(error, &body))?;
        self.known.etag = etag;
        self.known.incarnation = document.incarnation;
        self.known.replace_body(body);
        Ok(Some(Answer::Document {
            document,
            anomalies,
        }))
    }

    /// The instance metadata of this VM. If IMDS refuses their version and offers others, the newest of these is
    /// requested from now on.
    pub(super) async fn request_compute(
        &mut self,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Vec<u8>, RequestError> {
        let mut may_change_version = true;
        loop {
            let request = self.connection.request(&self.endpoint.compute);
            let response = self.send(request, timeout, clock).await?;
            if response.status() == StatusCode::OK {
                return self.read(response.into_body(), timeout, clock).await;
            }
            let (parts, body) = response.into_parts();
            let body = error_body(body).await;
            let offered = error::offered_version(&body).filter(|_| {
                parts.status == StatusCode::BAD_REQUEST && std::mem::take(&mut may_change_version)
            });
            if !offered.is_some_and(|offered| self.endpoint.set_instance_version(offered)) {
                let version = &self.endpoint.instance_version;
                let request = RequestKind::InstanceMetadata { version };
                return Err(self.classify(&parts, &body, request, clock));
            }
        }
    }

    async fn status_error(
        &self,
        response: Response<Incoming>,
        request: RequestKind<'_>,
        clock: Clock,
    ) -> RequestError {
        let (parts, body) = response.into_parts();
        let body = error_body(body).await;
        self.classify(&parts, &body, request, clock)
    }

    fn classify(
        &self,
        response: &Parts,
        body: &[u8],
        request: RequestKind<'_>,
        clock: Clock,
    ) -> RequestError {
        let has_succeeded = match request {
            RequestKind::Events | RequestKind::Approval => self.has_read_events,
            RequestKind::InstanceMetadata { .. } => self.has_read_metadata,
        };
        error::status(response, body, request, has_succeeded, clock.now().wall)
    }

    /// Sends a request. A GET is repeated once if IMDS closes the kept connection without an answer (RFC 9110, section
    /// 9.2.2). An approval is not: IMDS may have accepted it, and the document shows that.
    async fn send(
        &mut self,
        request: OutgoingRequest,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Response<Incoming>, RequestError> {
        let again = (request.method() == Method::GET).then(|| request.clone());
        let sent = self.send_once(request, timeout, clock).await;
        match again {
            Some(request) if sent.is_err() && self.connection.was_outdated => {
                self.send_once(request, timeout, clock).await
            }
            _ => sent,
        }
    }

    /// Sends one request, at least [`backoff::MIN_REQUEST_INTERVAL`] after the previous one.
    async fn send_once(
        &mut self,
        request: OutgoingRequest,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Response<Incoming>, RequestError> {
        let since = self.since_last_start(clock);
        let delay = since.map_or(Duration::ZERO, |since| {
            backoff::MIN_REQUEST_INTERVAL.saturating_sub(since)
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
    ) -> Result<Vec<u8>, RequestError> {
        let since = self.since_last_start(clock).unwrap_or_default();
        let left = timeout.saturating_sub(since);
        let read = tokio::time::timeout(left, read_body(body, MAX_BODY_BYTES)).await;
        read.unwrap_or_else(|_| Err(self.timeout_error(timeout)))
    }

    fn since_last_start(&self, clock: Clock) -> Option<Duration> {
        let last_start = self.last_start?;
        Some(clock.now().monotonic - last_start)
    }

    fn timeout_error(&self, timeout: Duration) -> RequestError {
        let base = self.endpoint.base();
        if self.connection.is_opening {
            error::connect_timeout(base)
        } else {
            error::timeout(base, timeout)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{azure::api_version::RequestedVersion, base::time::Timestamp};

    #[tokio::test]
    async fn a_minute_of_empty_bodies_is_an_empty_document_and_forgets_the_last_one() {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let version = RequestedVersion::parse("2020-07-01").unwrap();
        let endpoint = Endpoint::new("http://127.0.0.1:9", &version).unwrap();
        let mut client = Client::new(&endpoint).unwrap();
        client.known.etag = Some(HeaderValue::from_static("\"7\""));
        client.known.replace_body(b"{}".to_vec());
        let moment = |seconds| {
            Moment::new(Timestamp::UNIX_EPOCH, Duration::ZERO).after(Duration::from_secs(seconds))
        };
        for second in 0..60 {
            let error = client.accept_empty_body(moment(second)).unwrap_err();
            assert_eq!(error.reason, FailureReason::Body, "{second}");
            assert!(client.known.etag.is_some(), "{second}");
            assert!(client.known.has_body(b"{}"), "{second}");
        }
        let Ok(Answer::Document {
            document,
            anomalies,
        }) = client.accept_empty_body(moment(60))
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
        assert!(client.accept_empty_body(moment(61)).is_ok());

        let clock = Clock::start();
        let refused = client.poll(Duration::from_secs(5), clock).await;
        assert!(refused.unwrap_err().is_unsent);
        let again = client.accept_empty_body(moment(62));
        assert!(again.is_err(), "the minute restarts");
    }
}
