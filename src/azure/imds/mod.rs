//! Client of Azure's Instance Metadata Service (IMDS): the scheduled-events document, the VM's identity, approvals.
//!
//! Invariants: one request is in flight (each takes the [`Client`] by `&mut`); two requests start at least 200 ms
//! apart; redirects are not followed; no proxy is used; a body above 4 MiB is rejected; the status is checked before
//! the body. Every failure is a [`RequestError`] with one of a closed set of reasons and a hint for the operator.
//!
//! A document is returned only if IMDS sent one: an error object, a captive portal's page, a redirect or a truncated
//! body is a failure. A 304 is accepted only if the request carried the `ETag` of the last document; without an `ETag`,
//! the same bytes again are the same answer. A 200 with an empty body, which has been observed in production, is a
//! failure at first; after a minute of only empty bodies it is an empty document.
//!
//! References: <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events>,
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service>.

mod endpoint;
pub(crate) mod identity;
mod imds_connection;
pub(crate) mod poll_timing;
pub(crate) mod request_error;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
    http::response::Parts,
};
use serde_json::json;
use tokio::time::sleep;

pub use self::endpoint::{Endpoint, EndpointError};
use self::{
    imds_connection::{ImdsConnection, MAX_BODY_BYTES, OutgoingRequest, error_body, read_body},
    poll_timing::MIN_REQUEST_INTERVAL,
    request_error::{FailureReason, RequestError, RequestKind},
};
use crate::{
    azure::{
        document::{self, Anomalies, AnomalyKind, Answer, Document},
        event::EventId,
    },
    base::time::{Clock, MonotonicTime},
};

/// A longer body is not kept in memory between two polls, and parsed each time.
const MAX_KEPT_BYTES: usize = 512 * 1024;
/// Empty bodies are accepted as "no events" after this time without any other response.
const MIN_EMPTY_DURATION: Duration = Duration::from_mins(1);
/// A longer gap between two empty bodies restarts that time: nothing was observed in between.
const MAX_EMPTY_GAP: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Client {
    connection: ImdsConnection,
    endpoint: Endpoint,
    clock: Clock,
    etag: Option<HeaderValue>,
    /// The body of the last document; empty if it is too long.
    body: Vec<u8>,
    /// The times of the first and the last of consecutive empty bodies.
    empty_bodies: Option<(MonotonicTime, MonotonicTime)>,
    has_read_events: bool,
    has_read_metadata: bool,
    last_start: Option<MonotonicTime>,
    /// `--vm.owner-tag`.
    pub(crate) owner_tag: Option<Arc<str>>,
    /// Requests beyond one for each call.
    pub(crate) repetitions: u64,
}

impl Client {
    /// A rustls crypto provider must be installed in the process.
    pub fn new(endpoint: &Endpoint, clock: Clock) -> Result<Self, EndpointError> {
        Ok(Self {
            connection: ImdsConnection::new(endpoint)?,
            endpoint: endpoint.clone(),
            clock,
            etag: None,
            body: Vec::new(),
            empty_bodies: None,
            has_read_events: false,
            has_read_metadata: false,
            last_start: None,
            owner_tag: None,
            repetitions: 0,
        })
    }

    /// The next poll requests and reads the whole document, even if it is the same as the last one.
    pub(crate) fn forget_document(&mut self) {
        self.etag = None;
        self.body = Vec::new();
    }

    pub async fn poll(&mut self, timeout: Duration) -> Result<Answer, RequestError> {
        let answer = self.request_document(timeout).await;
        let Some(answer) = answer.transpose() else {
            return self.accept_empty_body(self.clock.now().monotonic);
        };
        self.empty_bodies = None;
        self.has_read_events |= answer.is_ok();
        answer
    }

    fn accept_empty_body(&mut self, now: MonotonicTime) -> Result<Answer, RequestError> {
        let series = self.empty_bodies;
        let series = series.filter(|(_, last)| now - *last <= MAX_EMPTY_GAP);
        let first = series.map_or(now, |(first, _)| first);
        self.empty_bodies = Some((first, now));
        if now - first < MIN_EMPTY_DURATION {
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
    /// document must be polled before another attempt. `incarnation` is that of the document that lists them.
    pub async fn approve(
        &mut self,
        ids: &[EventId],
        incarnation: Option<i64>,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        let requests = ids.iter().map(|id| json!({ "EventId": id.as_str() }));
        let requests: Vec<_> = requests.collect();
        let is_named = self.endpoint.approvals_name_incarnation;
        let body = match incarnation.filter(|_| is_named) {
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
        let response = self.send(request, timeout).await?;
        let (parts, body) = response.into_parts();
        // The content is undocumented; reading it makes the connection reusable.
        let body = error_body(body, timeout).await;
        match parts.status {
            StatusCode::OK => Ok(()),
            _ => Err(self.classify(&parts, &body, RequestKind::Approval)),
        }
    }

    /// `None` for an empty body.
    async fn request_document(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Answer>, RequestError> {
        let mut request = self.connection.request(&self.endpoint.events);
        if let Some(etag) = &self.etag {
            let headers = request.headers_mut();
            headers.insert(header::IF_NONE_MATCH, etag.clone());
        }
        let response = self.send(request, timeout).await?;
        let (mut parts, body) = response.into_parts();
        match parts.status {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if self.etag.is_some() => {
                return Ok(Some(Answer::Unchanged));
            }
            _ => {
                let body = error_body(body, timeout).await;
                return Err(self.classify(&parts, &body, RequestKind::Events));
            }
        }
        let body = self.read(body, timeout).await?;
        if body.trim_ascii().is_empty() {
            return Ok(None);
        }
        let etag = parts.headers.remove(header::ETAG);
        if body == self.body {
            self.etag = etag;
            return Ok(Some(Answer::Unchanged));
        }
        let (document, anomalies) = document::parse(&body)
            .map_err(|error| request_error::parse(&error, "a scheduled-events document", &body))?;
        self.etag = etag;
        let kept = Some(&body).filter(|body| body.len() <= MAX_KEPT_BYTES);
        self.body = kept.map_or_else(Vec::new, |body| body.to_vec());
        Ok(Some(Answer::Document {
            document,
            anomalies,
        }))
    }

    /// The instance metadata of this VM. If IMDS refuses their version and offers others, the newest of these is
    /// requested from now on.
    async fn request_compute(&mut self, timeout: Duration) -> Result<Bytes, RequestError> {
        let mut may_change_version = true;
        loop {
            let request = self.connection.request(&self.endpoint.compute);
            let response = self.send(request, timeout).await?;
            if response.status() == StatusCode::OK {
                return self.read(response.into_body(), timeout).await;
            }
            let (parts, body) = response.into_parts();
            let body = error_body(body, timeout).await;
            let offered = request_error::offered_version(&body).filter(|_| {
                parts.status == StatusCode::BAD_REQUEST && std::mem::take(&mut may_change_version)
            });
            if !offered.is_some_and(|offered| self.endpoint.set_instance_version(offered)) {
                let version = &self.endpoint.instance_version;
                let request = RequestKind::InstanceMetadata { version };
                return Err(self.classify(&parts, &body, request));
            }
            self.repetitions += 1;
        }
    }

    fn classify(&self, response: &Parts, body: &[u8], request: RequestKind<'_>) -> RequestError {
        let has_succeeded = match request {
            RequestKind::Events | RequestKind::Approval => self.has_read_events,
            RequestKind::InstanceMetadata { .. } => self.has_read_metadata,
        };
        request_error::status(
            response,
            body,
            request,
            has_succeeded,
            self.clock.now().wall,
        )
    }

    /// Sends a request, at least [`MIN_REQUEST_INTERVAL`] after the previous one. A GET is repeated once if IMDS closes the
    /// kept connection without an answer (RFC 9110, section 9.2.2). An approval is not: IMDS may have accepted it, and the
    /// document shows that.
    async fn send(
        &mut self,
        request: OutgoingRequest,
        timeout: Duration,
    ) -> Result<Response<Incoming>, RequestError> {
        let mut may_repeat = request.method() == Method::GET;
        loop {
            let since = self.since_last_start().unwrap_or(Duration::MAX);
            let delay = MIN_REQUEST_INTERVAL.saturating_sub(since);
            // `sleep(0)` takes a millisecond.
            if !delay.is_zero() {
                sleep(delay).await;
            }
            self.last_start = Some(self.clock.now().monotonic);
            let sending = self.connection.send(request.clone());
            let sent = tokio::time::timeout(timeout, sending).await;
            let sent = sent.unwrap_or_else(|_| Err(self.timeout_error(timeout)));
            if !(sent.is_err() && self.connection.was_outdated && may_repeat) {
                let response = sent?;
                if response.status() == StatusCode::MISDIRECTED_REQUEST {
                    self.connection.close();
                }
                return Ok(response);
            }
            may_repeat = false;
            self.repetitions += 1;
        }
    }

    /// Reads the body of the last response within what remains of `timeout`.
    async fn read(&mut self, body: Incoming, timeout: Duration) -> Result<Bytes, RequestError> {
        let since = self.since_last_start().unwrap_or_default();
        let left = timeout.saturating_sub(since);
        let read = tokio::time::timeout(left, read_body(body, MAX_BODY_BYTES)).await;
        read.unwrap_or_else(|_| Err(self.timeout_error(timeout)))
    }

    fn since_last_start(&self) -> Option<Duration> {
        let last_start = self.last_start?;
        Some(self.clock.now().monotonic - last_start)
    }

    fn timeout_error(&self, timeout: Duration) -> RequestError {
        let base = self.endpoint.base();
        if self.connection.is_opening {
            request_error::connect_timeout(base)
        } else {
            request_error::timeout(base, timeout)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::azure::api_version::ApiVersion;

    fn client() -> Client {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let version = ApiVersion::parse("2020-07-01").unwrap();
        Client::new(
            &Endpoint::new("http://127.0.0.1:9", &version).unwrap(),
            Clock::start(),
        )
        .unwrap()
    }

    fn accept_empty_body(client: &mut Client, second: u64) -> Result<Answer, RequestError> {
        client.accept_empty_body(MonotonicTime::since_origin(Duration::from_secs(second)))
    }

    #[tokio::test]
    async fn a_minute_of_empty_bodies_is_an_empty_document_and_forgets_the_last_one() {
        let mut client = client();
        client.etag = Some(HeaderValue::from_static("\"7\""));
        client.body = b"{}".to_vec();
        for second in 0..60 {
            let error = accept_empty_body(&mut client, second).unwrap_err();
            assert_eq!(error.reason, FailureReason::Body, "{second}");
            assert!(client.etag.is_some() && client.body == b"{}", "{second}");
        }
        let Ok(Answer::Document {
            document,
            anomalies,
        }) = accept_empty_body(&mut client, 60)
        else {
            panic!("not accepted");
        };
        assert_eq!(document, Document::default());
        assert!(document.is_complete());
        let kinds: Vec<_> = anomalies.described.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [AnomalyKind::EmptyBody]);
        assert_eq!(client.etag, None);
        assert!(client.body.is_empty(), "the old document is news");
        accept_empty_body(&mut client, 61).unwrap();

        let refused = client.poll(Duration::from_secs(5)).await;
        assert!(refused.unwrap_err().is_unsent);
        accept_empty_body(&mut client, 62).expect_err("the minute restarts");
    }

    #[tokio::test]
    async fn empty_bodies_are_accepted_unless_a_gap_is_longer_than_30_seconds() {
        let accepted_at = |seconds: &[u64]| {
            let mut client = client();
            let mut seconds = seconds.iter();
            seconds.position(|second| accept_empty_body(&mut client, *second).is_ok())
        };
        assert_eq!(accepted_at(&[5, 35, 50, 64, 65]), Some(4));
        assert_eq!(accepted_at(&[0, 31, 61, 91]), Some(3));
        assert_eq!(accepted_at(&[0, 61, 122, 183]), None);
    }
}
