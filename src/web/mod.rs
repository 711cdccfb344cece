//! The HTTP service of the exporter.
//!
//! | path | response |
//! |---|---|
//! | `/` | the status page |
//! | the telemetry path, `/metrics` | the metrics, in the negotiated format |
//! | `/api/v1/events` | the snapshot as JSON (`api`) |
//! | `/-/healthy`, `/healthz` | 200 |
//! | `/-/ready`, `/readyz` | 503 until the first successful poll, then 200 |
//! | `/-/serving` | 503 while a load balancer should not send traffic to this VM (`probe`) |
//! | `/assets/…` | style, script and icon of the status page |
//!
//! `/` and `/api/v1/events` answer 403 to a `Host` header with a foreign name (`hosts`).
//!
//! Each response is built from one snapshot. The service is read-only: it accepts GET and HEAD, keeps no state of a
//! request and sends no requests of its own. Untrusted text is escaped in every body.

mod api;
#[cfg(test)]
mod fixtures;
mod hosts;
mod probe;
mod recent;
mod reply;
mod status;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::{
    HeaderMap, Method, Request, StatusCode, Uri,
    body::Incoming,
    header::{ACCEPT, ACCEPT_ENCODING, HeaderName, VARY},
};
use tokio::sync::watch;

use crate::{
    metrics::{self, MetricsOptions, exposition::Format, negotiation},
    server::{Abort, Handler, HandlerResponse},
    snapshot::Snapshot,
    time::{Clock, Moment},
};
pub use hosts::AllowedHosts;
use recent::{RecentResponses, Variant};
use reply::{Media, WebResponse};

#[derive(Debug, Clone)]
pub struct WebSettings {
    /// The path of the metrics.
    pub telemetry_path: String,
    /// Names under which `/` and `/api/v1/events` are served.
    pub allowed_hosts: AllowedHosts,
    /// Selects the optional series.
    pub exposed: MetricsOptions,
    /// `/-/serving` fails for this time before an event of this VM.
    pub serving_lead_time: Duration,
}

/// Serves the latest snapshot.
#[derive(Clone)]
pub struct WebService {
    settings: Arc<WebSettings>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    dropped_log_lines: Arc<AtomicU64>,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
    recent: Arc<RecentResponses>,
}

impl fmt::Debug for WebService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebService")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl WebService {
    /// Serves the latest snapshot of the channel.
    pub(crate) fn new(
        settings: WebSettings,
        snapshot: watch::Receiver<Arc<Snapshot>>,
        dropped_log_lines: Arc<AtomicU64>,
        clock: Clock,
    ) -> Self {
        let now = move || clock.now();
        Self::at(settings, snapshot, dropped_log_lines, now)
    }

    /// Like `new`, with the clock of a test.
    pub fn at(
        settings: WebSettings,
        snapshot: watch::Receiver<Arc<Snapshot>>,
        dropped_log_lines: Arc<AtomicU64>,
        now: impl Fn() -> Moment + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings: Arc::new(settings),
            snapshot,
            dropped_log_lines,
            clock: Arc::new(now),
            recent: Arc::default(),
        }
    }

    /// The response to a request; the body of the request is ignored.
    fn respond<B>(&self, request: &Request<B>) -> HandlerResponse {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return reply::method_not_allowed().into_response();
        }
        let (uri, headers) = (request.uri(), request.headers());
        let accepts_gzip = accepts_gzip(headers);
        let reply = reply::asset(uri.path())
            .or_else(|| self.page(uri, headers, accepts_gzip))
            .unwrap_or_else(reply::not_found);
        reply.compress_if(accepts_gzip).into_response()
    }

    fn page(&self, uri: &Uri, headers: &HeaderMap, accepts_gzip: bool) -> Option<WebResponse> {
        let path = uri.path();
        // Taken once, so that all values of the response are of the same snapshot.
        let snapshot = Arc::clone(&self.snapshot.borrow());
        let now = (self.clock)();
        if path == self.settings.telemetry_path {
            let variant = Variant {
                format: Format::negotiate(combined(headers, ACCEPT).as_deref()),
                is_compressed: accepts_gzip,
            };
            return Some(self.metrics(&snapshot, now, variant));
        }
        let settings = &self.settings;
        let serving = || probe::serving(&snapshot, settings.serving_lead_time, now);
        let is_host_allowed = || settings.allowed_hosts.allows(uri, headers, &snapshot);
        let reply = match path {
            "/" | "/api/v1/events" if !is_host_allowed() => reply::host_not_allowed(),
            "/" => WebResponse::new(
                Media::Html,
                status::page(&snapshot, &settings.telemetry_path, &serving(), now),
            ),
            "/api/v1/events" => match api::json(&snapshot, now) {
                Ok(json) => WebResponse::new(Media::Json, json),
                Err(_) => reply::internal_error(),
            },
            "/-/healthy" | "/healthz" => WebResponse::new(Media::PlainText, "healthy\n"),
            "/-/ready" | "/readyz" => reply::probe(probe::ready(&snapshot)),
            "/-/serving" => reply::probe(serving()),
            _ => return None,
        };
        Some(reply)
    }

    fn metrics(&self, snapshot: &Arc<Snapshot>, now: Moment, variant: Variant) -> WebResponse {
        let render = || {
            let dropped = self.dropped_log_lines.load(Ordering::Relaxed);
            let text = metrics::render(snapshot, self.settings.exposed, dropped, now).ok()?;
            let body = variant.format.write(text);
            let response = WebResponse::new(Media::Metrics(variant.format), body)
                .with(VARY, "accept, accept-encoding");
            Some(response.compress_if(variant.is_compressed))
        };
        self.recent
            .get_or_render(variant, snapshot, now, render)
            .unwrap_or_else(reply::internal_error)
    }
}

#[async_trait::async_trait]
impl Handler for WebService {
    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        Ok(self.respond(&request))
    }
}

/// All lines of a header as one list (RFC 9110, section 5.3). Lines that are not text are ignored.
fn combined(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let lines: Vec<&str> = headers
        .get_all(name)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .collect();
    (!lines.is_empty()).then(|| lines.join(","))
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    negotiation::accepts_gzip(combined(headers, ACCEPT_ENCODING).as_deref())
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProbeResult {
    /// True for 200, false for 503.
    is_ok: bool,
    /// The body of the response, one line.
    reason: String,
}

impl ProbeResult {
    fn status(&self) -> StatusCode {
        if self.is_ok {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}
