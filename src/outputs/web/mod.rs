//! The HTTP service of the exporter.
//!
//! | path | response |
//! |---|---|
//! | `/` | the status page |
//! | the telemetry path, `/metrics` | the metrics, in the negotiated format |
//! | `/api/v1/events` | the snapshot as JSON (`api`) |
//! | `/api/v1/transitions?after=N` | the transitions of events after number N, as JSON |
//! | `/-/healthy`, `/healthz` | 200 |
//! | `/-/ready`, `/readyz` | 503 until the first successful poll, then 200 |
//! | `/-/serving` | 503 while a load balancer should not send traffic to this VM (`probe`) |
//! | `/assets/…` | style, script and icon of the status page |
//!
//! Each response is built from one snapshot. The service accepts GET and HEAD, at the probes also OPTIONS, which the
//! health check of `HAProxy` sends. Untrusted text is escaped in every body.

mod api;
#[cfg(test)]
pub(crate) mod fixtures;
mod probe;
mod reply;
mod status;

use std::{fmt, sync::Arc, time::Duration};

use hyper::{
    HeaderMap, Method, Request, StatusCode,
    body::Incoming,
    header::{ACCEPT, ACCEPT_ENCODING, HeaderName, VARY},
};
use tokio::sync::watch;

use crate::{
    base::time::Moment,
    core::snapshot::Snapshot,
    http::server::{Abort, Anonymous, Handler, HandlerResponse},
    outputs::{
        metrics::{
            MetricsOptions, Scrape,
            exposition::{self, Format},
        },
        output_counters::OutputCounters,
    },
};

/// Paths of the probes that a kubelet or a load balancer sends. They need no password, because those have none.
pub(crate) const PROBE_PATHS: [&str; 5] = [
    "/-/healthy",
    "/healthz",
    "/-/ready",
    "/readyz",
    "/-/serving",
];

#[derive(Debug, Clone)]
pub struct WebSettings {
    pub telemetry_path: String,
    pub exposed: MetricsOptions,
    /// `/-/serving` fails for this time before an event of this VM.
    pub serving_lead_time: Duration,
    /// The page and the speed of the simulator, if the exporter polls that of its own process.
    pub simulator: Option<(Box<str>, f64)>,
}

#[derive(Clone)]
pub struct WebService {
    settings: Arc<WebSettings>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    outputs: Arc<OutputCounters>,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
}

impl fmt::Debug for WebService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebService")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl WebService {
    pub fn new(
        settings: WebSettings,
        snapshot: watch::Receiver<Arc<Snapshot>>,
        outputs: Arc<OutputCounters>,
        now: impl Fn() -> Moment + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings: Arc::new(settings),
            snapshot,
            outputs,
            clock: Arc::new(now),
        }
    }

    /// The response to a request; the body of the request is ignored.
    fn respond<B>(&self, request: &Request<B>) -> HandlerResponse {
        let is_probe = PROBE_PATHS.contains(&request.uri().path());
        let is_options = is_probe && request.method() == Method::OPTIONS;
        if !matches!(*request.method(), Method::GET | Method::HEAD) && !is_options {
            return reply::method_not_allowed(is_probe);
        }
        let response = self.content(request);
        let response = response.unwrap_or_else(|| {
            reply::text(StatusCode::INTERNAL_SERVER_ERROR, "500: internal error\n")
        });
        let encodings = combined(request.headers(), ACCEPT_ENCODING);
        if is_options {
            reply::without_body(response)
        } else if exposition::accepts_gzip(encodings.as_deref()) {
            reply::compressed(response)
        } else {
            response
        }
    }

    /// `None` if the content cannot be made.
    fn content<B>(&self, request: &Request<B>) -> Option<HandlerResponse> {
        let settings = &self.settings;
        // Each is taken once, so that all values of the response are of the same snapshot and time.
        let snapshot = Arc::clone(&self.snapshot.borrow());
        let now = (self.clock)();
        let lead_time = settings.serving_lead_time;
        let serving = || probe::serving(&snapshot, lead_time, now);
        Some(match request.uri().path() {
            path if path == settings.telemetry_path => {
                let accept = combined(request.headers(), ACCEPT);
                let format = Format::negotiate(accept.as_deref());
                let scrape = Scrape {
                    snapshot,
                    options: settings.exposed,
                    outputs: Arc::clone(&self.outputs),
                    now,
                };
                let text = scrape.text(format).ok()?;
                let mut response = reply::ok(format.content_type(), text);
                reply::set(&mut response, VARY, "accept, accept-encoding");
                response
            }
            "/" => {
                let page = status::page(&snapshot, settings, &serving(), now);
                reply::ok(reply::HTML, page)
            }
            "/api/v1/events" => reply::ok(reply::JSON, api::json(&snapshot, lead_time, now).ok()?),
            "/api/v1/transitions" => match api::after(request.uri().query()) {
                Err(problem) => reply::text(StatusCode::BAD_REQUEST, problem),
                Ok(after) => {
                    let body = api::transitions_json(&snapshot, after, lead_time, now).ok()?;
                    reply::ok(reply::JSON, body)
                }
            },
            "/-/healthy" | "/healthz" => reply::text(StatusCode::OK, "healthy\n"),
            "/-/ready" | "/readyz" => reply::probe(probe::ready(&snapshot)),
            "/-/serving" => {
                let is_anonymous = request.extensions().get::<Anonymous>().is_some();
                reply::probe(match serving() {
                    // Without the event.
                    Err(_) if is_anonymous => Err("not serving".to_owned()),
                    result => result,
                })
            }
            path => reply::asset(path).unwrap_or_else(|| {
                let body = "404: no such page. The status page is at /\n";
                reply::text(StatusCode::NOT_FOUND, body)
            }),
        })
    }
}

#[async_trait::async_trait]
impl Handler for WebService {
    async fn handle(&self, request: Request<Incoming>) -> Result<HandlerResponse, Abort> {
        Ok(self.respond(&request))
    }

    fn has_large_body(&self, request: &Request<Incoming>) -> bool {
        !PROBE_PATHS.contains(&request.uri().path())
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
