//! The one HTTP client that talks to IMDS.
//!
//! A 304 means "unchanged" only in answer to the `ETag` of the last good document. A 200 with an empty body, which has been
//! seen in the field, changes nothing at first; when nothing but empty bodies has come for a minute, it is an empty
//! document.

use std::time::Duration;

use reqwest::{
    StatusCode, Url,
    header::{self, HeaderMap, HeaderValue},
};

use super::{
    cadence,
    empty::EmptyBodies,
    endpoint::{Endpoint, SetupError},
    error::{self, Error},
    explanation,
};
use crate::{
    document::{self, Anomalies, AnomalyKind, Document},
    event::EventId,
    time::{Clock, Moment},
};

/// The most of a body that is read.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The most that is read of a body that only explains an error.
const MOST_ERROR_BYTES: usize = 64 * 1024;
/// How long such a body may take.
const EXPLANATION_TIMEOUT: Duration = Duration::from_secs(1);
/// IMDS is on the host: a connection that takes longer will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A good answer to a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A document.
    Document {
        /// What it says.
        document: Document,
        /// What is odd about it.
        anomalies: Anomalies,
    },
    /// The last document still holds (304).
    Unchanged,
}

/// Talks to one IMDS, one request at a time.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
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
        let mut headers = HeaderMap::new();
        headers.insert("Metadata", HeaderValue::from_static("true"));
        let builder = reqwest::Client::builder()
            .user_agent(concat!(
                env!("CARGO_PKG_NAME"),
                "/",
                env!("CARGO_PKG_VERSION")
            ))
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .http1_only()
            .pool_max_idle_per_host(1)
            .connect_timeout(CONNECT_TIMEOUT);
        // Without TLS no certificate authority is needed, and none need be there: a container may have none at all.
        let builder = if endpoint.is_https() {
            builder
        } else {
            builder.tls_certs_only([])
        };
        let http = builder.build().map_err(|error| SetupError::Client {
            address: endpoint.base().to_owned(),
            cause: error::root_cause(&error),
        })?;
        Ok(Self {
            http,
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
        // The document of that `ETag` no longer is what is known: a 304 to it would bring nothing back.
        self.etag = None;
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
        let request = self
            .http
            .post(self.endpoint.events.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.to_string());
        let response = self.send(request, timeout, clock).await?;
        if response.status() != StatusCode::OK {
            return Err(self.refusal(response, clock).await);
        }
        // Read only so that the connection can be used again: what stands in it is not documented.
        self.explanation(response).await;
        Ok(())
    }

    async fn ask_for_document(&mut self, timeout: Duration, clock: Clock) -> Result<Answer, Error> {
        let mut request = self.http.get(self.endpoint.events.clone());
        if let Some(etag) = &self.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        let response = self.send(request, timeout, clock).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if self.etag.is_some() => return Ok(Answer::Unchanged),
            _ => return Err(self.refusal(response, clock).await),
        }
        let etag = response.headers().get(header::ETAG).cloned();
        let body = self.read(response, MOST_BYTES, timeout).await?;
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
        url: Url,
        timeout: Duration,
        clock: Clock,
    ) -> Result<Vec<u8>, Error> {
        let request = self.http.get(url);
        let response = self.send(request, timeout, clock).await?;
        if response.status() == StatusCode::OK {
            self.read(response, MOST_BYTES, timeout).await
        } else {
            Err(self.refusal(response, clock).await)
        }
    }

    /// Sends one request, not too soon after the one before.
    async fn send(
        &mut self,
        request: reqwest::RequestBuilder,
        timeout: Duration,
        clock: Clock,
    ) -> Result<reqwest::Response, Error> {
        if let Some(last_start) = self.last_start {
            let since = clock.now().monotonic.saturating_sub(last_start);
            let rest = cadence::SHORTEST.saturating_sub(since);
            // A sleep of nothing is a millisecond, and a wake-up.
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
        }
        self.last_start = Some(clock.now().monotonic);
        request
            .timeout(timeout)
            .send()
            .await
            .map_err(|error| Error::from_request(&error, self.endpoint.base(), timeout))
    }

    /// Reads a body, and stops where it grows past `cap`.
    async fn read(
        &self,
        mut response: reqwest::Response,
        cap: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, Error> {
        let announced = response.content_length().unwrap_or(0);
        if usize::try_from(announced).map_or(true, |announced| announced > cap) {
            return Err(Error::TooLarge { cap });
        }
        let mut body = Vec::new();
        loop {
            let chunk = response.chunk().await.map_err(|error| {
                Error::from_body(&error, body.len(), self.endpoint.base(), timeout)
            })?;
            let Some(chunk) = chunk else {
                return Ok(body);
            };
            if body.len() + chunk.len() > cap {
                return Err(Error::TooLarge { cap });
            }
            body.extend_from_slice(&chunk);
        }
    }

    /// The body of an answer whose status says enough: empty where it does not come at once.
    async fn explanation(&self, response: reqwest::Response) -> Vec<u8> {
        let body = self.read(response, MOST_ERROR_BYTES, EXPLANATION_TIMEOUT);
        match tokio::time::timeout(EXPLANATION_TIMEOUT, body).await {
            Ok(Ok(body)) => body,
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }

    /// Why an answer whose status is not the one that was hoped for does not count.
    async fn refusal(&self, response: reqwest::Response, clock: Clock) -> Error {
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
        let retry_after = explanation::retry_after(headers, clock.now().wall);
        let cloud = explanation::other_cloud(headers);
        let said = format!(
            "{}{cloud}",
            explanation::said(&self.explanation(response).await)
        );
        match status {
            410 => Error::Gone,
            429 => Error::Throttled { retry_after },
            400..=499 => Error::ClientError { status, said },
            500..=599 => Error::ServerError { status, said },
            _ => Error::ForeignStatus { status, said },
        }
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
