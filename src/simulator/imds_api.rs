//! The simulated metadata service: request checks, the document, approvals and instance metadata.
//!
//! The behaviour follows <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service> and
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events>. `docs/simulator.md` lists the
//! assumptions where these are silent, such as the response to an approval of an unknown event.

use std::{
    hash::{DefaultHasher, Hasher},
    time::Duration,
};

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{CONNECTION, ETAG, HeaderValue, IF_NONE_MATCH, RETRY_AFTER},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    document::{SimulatedVersion, document},
    http::{Request, SimulatorResponse},
    scenario::Fault,
    world::World,
};
use crate::{api_version::INSTANCE_API_VERSIONS, event::EventId, time::Moment};

/// Per request.
const MAX_APPROVALS: usize = 1_000;

/// What the server does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Respond(SimulatorResponse),
    /// Never respond.
    Hang,
    /// Wait this long, then handle the request again.
    Delay(Duration),
    CloseConnection,
}

/// Handles a request to a path under `/metadata`.
pub fn handle(world: &mut World, request: &Request<'_>, now: Moment) -> Action {
    world.advance(now);
    let (spec, end) = world.fault(now).unzip();
    let fault = spec.map(|spec| spec.fault);
    let error_response = match fault {
        Some(Fault::Hang) => return Action::Hang,
        Some(Fault::Reset) => return Action::CloseConnection,
        Some(Fault::Slow) if is_events(request.path) => {
            return Action::Delay(end.unwrap_or_default().saturating_sub(now.monotonic));
        }
        Some(Fault::Gone) => Some(error(
            StatusCode::GONE,
            "Gone. The service is being updated, retry within 70 seconds.",
        )),
        Some(Fault::Throttled) => Some(throttled(spec.and_then(|spec| spec.retry_after))),
        Some(Fault::RateLimit) if !world.accept_request(now) => Some(throttled(None)),
        Some(Fault::ServerError) => Some(error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal server error. Retry after some time.",
        )),
        Some(Fault::MetadataProxy) => spec.and_then(|spec| spec.status).map(proxy_response),
        _ => None,
    };
    Action::Respond(
        error_response
            .or_else(|| check_headers(request))
            .unwrap_or_else(|| route(world, request, fault, now)),
    )
}

pub(super) fn is_events(path: &str) -> bool {
    path.to_ascii_lowercase()
        .starts_with("/metadata/scheduledevents")
}

fn throttled(retry_after: Option<Duration>) -> SimulatorResponse {
    let response = error(StatusCode::TOO_MANY_REQUESTS, "Too many requests.");
    match retry_after {
        Some(wait) => response.with(RETRY_AFTER, wait.as_secs().to_string()),
        None => response,
    }
}

/// The Guest Proxy Agent sends no body, and closes the connection.
fn proxy_response(status: StatusCode) -> SimulatorResponse {
    SimulatorResponse::empty(status).with(CONNECTION, "close")
}

/// The service's protection against server-side request forgery. The preview of Scheduled Events does not ask for the
/// `Metadata` header.
fn check_headers(request: &Request<'_>) -> Option<SimulatorResponse> {
    let headers = request.headers;
    let is_true = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"true");
    let is_preview = is_events(request.path)
        && api_version(request.query)
            .and_then(SimulatedVersion::find)
            .is_some_and(SimulatedVersion::is_preview);
    if !is_preview && !headers.get("metadata").is_some_and(is_true) {
        return Some(bad_request(
            "Bad request. Required metadata header not specified",
        ));
    }
    if headers.contains_key("x-forwarded-for") {
        return Some(bad_request(
            "Bad request. Requests with an X-Forwarded-For header are not supported.",
        ));
    }
    None
}

fn route(
    world: &mut World,
    request: &Request<'_>,
    fault: Option<Fault>,
    now: Moment,
) -> SimulatorResponse {
    let path = request.path.to_ascii_lowercase();
    let path = path.strip_suffix('/').unwrap_or(&path);
    match path {
        "/metadata/scheduledevents" => scheduled_events(world, request, fault, now),
        "/metadata/versions" if request.method == Method::GET => SimulatorResponse::json(
            StatusCode::OK,
            &json!({ "apiVersions": INSTANCE_API_VERSIONS.as_slice() }),
        ),
        "/metadata/versions" => not_allowed("GET"),
        _ => match path.strip_prefix("/metadata/instance") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => instance(world, request),
            _ => error(StatusCode::NOT_FOUND, "Not found"),
        },
    }
}

fn scheduled_events(
    world: &mut World,
    request: &Request<'_>,
    fault: Option<Fault>,
    now: Moment,
) -> SimulatorResponse {
    if request.method != Method::GET && request.method != Method::POST {
        return not_allowed("GET, POST");
    }
    let version = match requested_version(request.query, SimulatedVersion::find) {
        Ok(version) => version,
        Err(response) => return response,
    };
    if request.method == Method::POST {
        return approve(world, request.body, now);
    }
    let (incarnation, events) = world.deliver(now);
    let body = document(incarnation, events, version);
    match fault {
        Some(Fault::EmptyBody) => SimulatorResponse::raw_json(StatusCode::OK, Vec::new()),
        Some(Fault::Garbage) => SimulatorResponse::raw_json(StatusCode::OK, garbled(body)),
        _ => conditional(body, request.headers),
    }
}

/// The first half of the document, followed by bytes that are not UTF-8.
fn garbled(document: String) -> Vec<u8> {
    let mut bytes = document.into_bytes();
    bytes.truncate(bytes.len() / 2);
    bytes.extend_from_slice(b"\xff\xfe\x00\xc3(");
    bytes
}

/// Responds with 304 if `If-None-Match` matches the document.
fn conditional(body: String, headers: &HeaderMap) -> SimulatorResponse {
    let tag = entity_tag(&body);
    let matches = headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| {
            value
                .split(',')
                .map(str::trim)
                .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
        });
    let response = if matches {
        SimulatorResponse::empty(StatusCode::NOT_MODIFIED)
    } else {
        SimulatorResponse::raw_json(StatusCode::OK, body)
    };
    response.with(ETAG, tag)
}

/// A hash of the content, because a scenario can reset the incarnation.
fn entity_tag(body: &str) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(body.as_bytes());
    format!("\"{:016x}\"", hasher.finish())
}

/// The body of a POST. The `DocumentIncarnation` that Microsoft's samples of the first versions send, as a number or a
/// string, is accepted and ignored. So is a missing one.
#[derive(Deserialize)]
struct Approval {
    #[serde(rename = "StartRequests")]
    start_requests: Vec<StartRequest>,
}

#[derive(Deserialize)]
struct StartRequest {
    #[serde(rename = "EventId")]
    event_id: String,
}

fn approve(world: &mut World, body: &[u8], now: Moment) -> SimulatorResponse {
    let Ok(approval) = serde_json::from_slice::<Approval>(body) else {
        return bad_request(
            "Bad request. The body is not a list of StartRequests, each with an EventId.",
        );
    };
    let requests = &approval.start_requests;
    if requests.is_empty() || requests.len() > MAX_APPROVALS {
        return bad_request("Bad request. StartRequests is empty or too long.");
    }
    let ids: Vec<EventId> = requests
        .iter()
        .map(|request| EventId::new(&request.event_id))
        .collect();
    match world.approve(&ids, now) {
        Ok(()) => SimulatorResponse::raw_json(StatusCode::OK, Vec::new()),
        Err(unknown) => bad_request(&format!("Bad request. {unknown}.")),
    }
}

fn instance(world: &World, request: &Request<'_>) -> SimulatorResponse {
    if request.method != Method::GET {
        return not_allowed("GET");
    }
    let find = |name: &str| {
        INSTANCE_API_VERSIONS
            .into_iter()
            .find(|version| *version == name)
    };
    let version = match requested_version(request.query, find) {
        Ok(version) => version,
        Err(response) => return response,
    };
    let is_text = parameters(request.query)
        .any(|(name, value)| name == "format" && value.eq_ignore_ascii_case("text"));
    let document = world.vm().instance_document(version);
    let found = request
        .path
        .split('/')
        .filter(|step| !step.is_empty())
        .skip(2)
        .try_fold(&document, |value, step| match value {
            Value::Object(members) => members
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(step))
                .map(|(_, value)| value),
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        });
    match found {
        None => error(StatusCode::NOT_FOUND, "Not found"),
        Some(Value::String(text)) if is_text => {
            SimulatorResponse::new(StatusCode::OK, "text/plain; charset=utf-8", text.as_str())
        }
        Some(Value::String(_)) => {
            bad_request("Bad request. A single value is available as text only: add format=text.")
        }
        Some(_) if is_text => bad_request("Bad request. Only a single value is available as text."),
        Some(value) => SimulatorResponse::json(StatusCode::OK, value),
    }
}

/// Returns the version that `find` finds for the query, or the error response.
fn requested_version<T>(
    query: &str,
    find: impl Fn(&str) -> Option<T>,
) -> Result<T, SimulatorResponse> {
    let mut names: Vec<String> = parameters(query)
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect();
    names.sort_unstable();
    let is_repeated = names
        .windows(2)
        .any(|pair| matches!(pair, [one, other] if one == other));
    if is_repeated {
        return Err(bad_request(
            "Bad request. A query parameter was specified more than once.",
        ));
    }
    api_version(query).and_then(find).ok_or_else(|| {
        let message = "Bad request. api-version is invalid or was not specified in the request.";
        let newest: Vec<&str> = INSTANCE_API_VERSIONS.into_iter().rev().take(3).collect();
        SimulatorResponse::json(
            StatusCode::BAD_REQUEST,
            &json!({ "error": message, "newest-versions": newest }),
        )
    })
}

fn api_version(query: &str) -> Option<&str> {
    parameters(query)
        .find(|(name, _)| name.eq_ignore_ascii_case("api-version"))
        .map(|(_, value)| value)
}

fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
}

fn error(status: StatusCode, message: &str) -> SimulatorResponse {
    SimulatorResponse::error(status, message)
}

fn bad_request(message: &str) -> SimulatorResponse {
    error(StatusCode::BAD_REQUEST, message)
}

fn not_allowed(methods: &str) -> SimulatorResponse {
    SimulatorResponse::method_not_allowed("Method not allowed", methods)
}
