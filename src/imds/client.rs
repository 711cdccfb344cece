//! The one HTTP client that talks to IMDS.
//!
//! A 304 means "unchanged" only in answer to the `ETag` of the last good document. A 200 with an empty body, which has been
//! seen in the field, changes nothing at first; when nothing but empty bodies has come for a minute, it is an empty
//! document.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Response, StatusCode, Uri,
    body::{Body as _, Incoming},
    header::{self, HeaderValue},
};

use super::{
    cadence,
    connection::{ImdsConnection, Outgoing},
    empty::EmptyBodies,
    endpoint::{Endpoint, SetupError},
    error::{self, Error},
    error_body,
};
use crate::{
    document::{self, Anomalies, AnomalyKind, Answer, Document},
    event::EventId,
    outbound::retry::retry_after,
    time::{Clock, Moment},
};

/// The most of a body that is read.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The most that is read of a body that only explains an error.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How long such a body may take.
const EXPLANATION_TIMEOUT: Duration = Duration::from_secs(1);

/// Talks to one IMDS, one request at a time.
#[derive(Debug)]
pub struct Client {
    connection: ImdsConnection,
    endpoint: Endpoint,
    /// The `ETag` of the last good document.
    etag: Option<HeaderValue>,
    empty_bodies: EmptyBodies,
    /// When the last request started, by the monotonic clock.
    last_start: Option<Duration>,
}

impl Client {
    /// A client for one endpoint. A provider of cryptography must have been installed in the process before.
    pub fn new(endpoint: &Endpoint) -> Result<Self, SetupError> {
        Ok(Self {
            connection: ImdsConnection::new(endpoint)?,
            endpoint: endpoint.clone(),
            etag: None,
            empty_bodies: EmptyBodies::default(),
            last_start: None,
        })
    }

    /// Which IMDS it talks to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The last document is not what is known any more: the next one must come as a whole.
    pub fn forget(&mut self) {
        self.etag = None;
    }

    /// Asks for the document.
    pub async fn poll(&mut self, timeout: Duration, clock: Clock) -> Result<Answer, Error> {
        let answer = self.ask_for_document(timeout, clock).await;
        self.settle(answer, clock.now())
    }

    /// Believes empty bodies once nothing else has come for long enough.
    fn settle(&mut self, answer: Result<Answer, Error>, now: Moment) -> Result<Answer, Error> {
        if !matches!(answer, Err(Error::EmptyBody)) {
            self.empty_bodies.interrupted();
            return answer;
        }
        if !self.empty_bodies.came(now) {
            return answer;
        }
        // A 304 to the old `ETag` would bring nothing back.
        self.forget();
        let mut anomalies = Anomalies::default();
        anomalies.add(
            AnomalyKind::EmptyBody,
            "nothing but empty bodies has come for a minute: taken as no events",
        );
        Ok(Answer::Document {
            document: Document::default(),
            anomalies,
        })
    }

    /// Approves one event: it may start before its `NotBefore`, on every VM that it names. `Ok` is IMDS's 200; after
    /// anything else the document must be read again before another try.
    pub async fn approve(
        &mut self,
        id: &EventId,
        timeout: Duration,
        clock: Clock,
    ) -> Result<(), Error> {
        let body = serde_json::json!({ "StartRequests": [{ "EventId": id.as_str() }] });
        let mut request = self.connection.request(&self.endpoint.events);
        *request.method_mut() = Method::POST;
        *request.body_mut() = Full::from(body.to_string());
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        let response = self.send(request, timeout, clock).await?;
        if response.status() != StatusCode::OK {
            return Err(refusal(response, clock).await);
        }
        // Read only so that the connection can be used again: what stands in it is not documented.
        error_body(response.into_body()).await;
        Ok(())
    }

    async fn ask_for_document(&mut self, timeout: Duration, clock: Clock) -> Result<Answer, Error> {
        let mut request = self.connection.request(&self.endpoint.events);
        if let Some(etag) = &self.etag {
            let headers = request.headers_mut();
            headers.insert(header::IF_NONE_MATCH, etag.clone());
        }
        let mut response = self.send(request, timeout, clock).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if self.etag.is_some() => return Ok(Answer::Unchanged),
            _ => return Err(refusal(response, clock).await),
        }
        let etag = response.headers_mut().remove(header::ETAG);
        let body = self.read(response.into_body(), timeout, clock).await?;
        if body.trim_ascii().is_empty() {
            return Err(Error::EmptyBody);
        }
        let (document, anomalies) =
            document::parse(&body).map_err(|refusal| Error::refused(refusal, &body))?;
        self.etag = etag;
        Ok(Answer::Document {
            document,
            anomalies,
        })
    }

    /// The body of a 200, for the other rooms of IMDS.
    pub(super) async fn get(
        &mut self,
        to: &Uri,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Vec<u8>, Error> {
        let request = self.connection.request(to);
        let response = self.send(request, timeout, clock).await?;
        if response.status() == StatusCode::OK {
            self.read(response.into_body(), timeout, clock).await
        } else {
            Err(refusal(response, clock).await)
        }
    }

    /// Sends one request, not too soon after the one before.
    async fn send(
        &mut self,
        request: Outgoing,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Response<Incoming>, Error> {
        let since = self.since_last_start(clock);
        let rest = since.map_or(Duration::ZERO, |since| {
            cadence::MIN_REQUEST_INTERVAL.saturating_sub(since)
        });
        // A sleep of nothing is a millisecond, and a wake-up.
        if !rest.is_zero() {
            tokio::time::sleep(rest).await;
        }
        self.last_start = Some(clock.now().monotonic);
        let sent = tokio::time::timeout(timeout, self.connection.send(request)).await;
        sent.unwrap_or_else(|_elapsed| Err(self.late(timeout)))
    }

    /// Reads the body of the last answer, in what is left of the time for the whole of it.
    async fn read(
        &self,
        body: Incoming,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Vec<u8>, Error> {
        let since = self.since_last_start(clock).unwrap_or_default();
        let left = timeout.saturating_sub(since);
        let read = tokio::time::timeout(left, whole(body, MAX_BYTES)).await;
        read.unwrap_or_else(|_elapsed| Err(self.late(timeout)))
    }

    fn since_last_start(&self, clock: Clock) -> Option<Duration> {
        let last_start = self.last_start?;
        Some(clock.now().monotonic.saturating_sub(last_start))
    }

    fn late(&self, timeout: Duration) -> Error {
        Error::Timeout {
            base: self.endpoint.base().to_owned(),
            after: timeout,
        }
    }
}

/// Reads a body, and stops where it grows past `cap`.
async fn whole(mut body: Incoming, cap: usize) -> Result<Vec<u8>, Error> {
    let announced = body.size_hint().lower();
    if usize::try_from(announced).map_or(true, |announced| announced > cap) {
        return Err(Error::TooLarge { cap });
    }
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Error::Truncated {
            received: all.len(),
            cause: error::root_cause(&error),
        })?;
        let Some(chunk) = frame.data_ref() else {
            continue;
        };
        if all.len() + chunk.len() > cap {
            return Err(Error::TooLarge { cap });
        }
        all.extend_from_slice(chunk);
    }
    Ok(all)
}

/// The body of an answer whose status says enough: empty where it does not come at once.
async fn error_body(body: Incoming) -> Vec<u8> {
    let read = whole(body, MAX_ERROR_BYTES);
    match tokio::time::timeout(EXPLANATION_TIMEOUT, read).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Why an answer whose status is not the one that was hoped for does not count.
async fn refusal(response: Response<Incoming>, clock: Clock) -> Error {
    let code = response.status();
    let status = code.as_u16();
    let headers = response.headers();
    match status {
        304 => return Error::UnaskedNotModified,
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
    let said = format!(
        "{}{cloud}",
        error_body::said(&error_body(response.into_body()).await)
    );
    match status {
        410 => Error::Gone,
        429 => Error::Throttled { retry_after },
        400..=499 => Error::ClientError { status, said },
        500..=599 => Error::ServerError { status, said },
        _ => Error::ForeignStatus { status, said },
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn a_minute_of_empty_bodies_is_an_empty_document_and_ends_the_etag() {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let endpoint = Endpoint::new("http://127.0.0.1", "2020-07-01").unwrap();
        let mut client = Client::new(&endpoint).unwrap();
        client.etag = Some(HeaderValue::from_static("\"7\""));
        let moment = |seconds| {
            Moment {
                wall: Timestamp::UNIX_EPOCH,
                monotonic: Duration::ZERO,
            }
            .after(Duration::from_secs(seconds))
        };
        for second in 0..60 {
            let settled = client.settle(Err(Error::EmptyBody), moment(second));
            assert_eq!(settled, Err(Error::EmptyBody), "{second}");
            assert!(client.etag.is_some(), "{second}");
        }
        let Ok(Answer::Document {
            document,
            anomalies,
        }) = client.settle(Err(Error::EmptyBody), moment(60))
        else {
            panic!("it is not believed");
        };
        assert_eq!(document, Document::default());
        assert!(document.is_complete());
        let kinds: Vec<_> = anomalies.iter().map(|anomaly| anomaly.kind).collect();
        assert_eq!(kinds, [AnomalyKind::EmptyBody]);
        assert_eq!(client.etag, None);

        let failed = client.settle(Err(Error::Gone), moment(61));
        assert_eq!(failed, Err(Error::Gone));
        let again = client.settle(Err(Error::EmptyBody), moment(62));
        assert_eq!(again, Err(Error::EmptyBody), "the minute begins anew");
    }
}
