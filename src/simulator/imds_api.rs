//! How the service answers: the checks of the metadata service, and then the document, an approval or the instance.
//! Pure: a world and a request in, a reply out.
//!
//! What is documented is done as documented, see <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service>
//! and <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events>. What is not (the answer to an
//! approval of an unknown event, say) is listed in `docs/simulator.md`.

use std::time::Duration;

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{ALLOW, ETAG, IF_NONE_MATCH, RETRY_AFTER},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    document::{self, document},
    reply::SimulatorResponse,
    scenario::Fault,
    vm,
    world::World,
};
use crate::{event::EventId, time::Moment};

/// More events than that are not approved at once.
const MAX_APPROVALS: usize = 1_000;

/// A request to the metadata service.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its path.
    pub path: &'a str,
    /// Its query, without the question mark.
    pub query: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its body.
    pub body: &'a [u8],
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is answered.
    SimulatorResponse(SimulatorResponse),
    /// It is never answered.
    Hang,
    /// It is answered after so long, with what is so then.
    Later(Duration),
    /// Its connection is closed.
    Reset,
}

/// Answers one request for a path below `/metadata`.
pub fn answer(world: &mut World, ask: &Ask<'_>, now: Moment) -> Outcome {
    world.advance(now);
    let (fault, over) = world.fault(now).unzip();
    let refused = match fault {
        Some(Fault::Hang) => return Outcome::Hang,
        Some(Fault::Reset) => return Outcome::Reset,
        Some(Fault::Slow) if is_events(ask.path) => {
            return Outcome::Later(over.unwrap_or_default().saturating_sub(now.monotonic));
        }
        Some(Fault::Gone) => Some(error(
            StatusCode::GONE,
            "Gone. The service is being updated, retry within 70 seconds.",
        )),
        Some(Fault::Throttled(retry_after)) => Some(throttled(retry_after)),
        Some(Fault::RateLimit) if world.is_too_many(now) => Some(throttled(None)),
        Some(Fault::ServerError) => Some(error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal server error. Retry after some time.",
        )),
        Some(Fault::Garbage | Fault::EmptyBody | Fault::Slow | Fault::RateLimit) | None => None,
    };
    Outcome::SimulatorResponse(
        refused
            .or_else(|| refusal(ask))
            .unwrap_or_else(|| route(world, ask, fault, now)),
    )
}

/// Whether a path is that of the scheduled events.
pub(super) fn is_events(path: &str) -> bool {
    path.to_ascii_lowercase()
        .starts_with("/metadata/scheduledevents")
}

fn throttled(retry_after: Option<u64>) -> SimulatorResponse {
    let reply = error(StatusCode::TOO_MANY_REQUESTS, "Too many requests.");
    match retry_after {
        Some(seconds) => reply.with(RETRY_AFTER, seconds.to_string()),
        None => reply,
    }
}

/// What protects the service from requests that somebody was tricked into.
fn refusal(ask: &Ask<'_>) -> Option<SimulatorResponse> {
    let is_true =
        |value: &hyper::header::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"true");
    if !ask.headers.get("metadata").is_some_and(is_true) {
        return Some(bad_request(
            "Bad request. Required metadata header not specified",
        ));
    }
    if ask.headers.contains_key("x-forwarded-for") {
        return Some(bad_request(
            "Bad request. Requests with an X-Forwarded-For header are not supported.",
        ));
    }
    None
}

fn route(world: &mut World, ask: &Ask<'_>, fault: Option<Fault>, now: Moment) -> SimulatorResponse {
    let path = ask.path.to_ascii_lowercase();
    let path = path.strip_suffix('/').unwrap_or(&path);
    match path {
        "/metadata/scheduledevents" => scheduled_events(world, ask, fault, now),
        "/metadata/versions" if ask.method == Method::GET => SimulatorResponse::of(
            StatusCode::OK,
            &json!({ "apiVersions": vm::VERSIONS.as_slice() }),
        ),
        "/metadata/versions" => not_allowed("GET"),
        _ => match path.strip_prefix("/metadata/instance") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => instance(world, ask),
            _ => error(StatusCode::NOT_FOUND, "Not found"),
        },
    }
}

fn scheduled_events(
    world: &mut World,
    ask: &Ask<'_>,
    fault: Option<Fault>,
    now: Moment,
) -> SimulatorResponse {
    if ask.method != Method::GET && ask.method != Method::POST {
        return not_allowed("GET, POST");
    }
    let version = match version(ask.query, &document::VERSIONS) {
        Ok(version) => version,
        Err(reply) => return reply,
    };
    if ask.method == Method::POST {
        return approval(world, ask.body, now);
    }
    let body = document(world, version);
    match fault {
        Some(Fault::EmptyBody) => SimulatorResponse::json(StatusCode::OK, Vec::new()),
        Some(Fault::Garbage) => SimulatorResponse::json(StatusCode::OK, garbled(body)),
        _ => conditional(body, ask.headers),
    }
}

/// Half of the document, then bytes that are no UTF-8.
fn garbled(document: String) -> Vec<u8> {
    let mut bytes = document.into_bytes();
    bytes.truncate(bytes.len() / 2);
    bytes.extend_from_slice(b"\xff\xfe\x00\xc3(");
    bytes
}

/// 304 where the client has this very document.
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
    let reply = if matches {
        SimulatorResponse {
            status: StatusCode::NOT_MODIFIED,
            headers: Vec::new(),
            body: Vec::new(),
        }
    } else {
        SimulatorResponse::json(StatusCode::OK, body)
    };
    reply.with(ETAG, tag)
}

/// Of the content rather than of the incarnation, which can begin anew (FNV-1a, 64 bits).
fn entity_tag(body: &str) -> String {
    let hash = body.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("\"{hash:016x}\"")
}

/// The body of a POST; the `DocumentIncarnation` of the first versions may stand in it, and means nothing.
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

fn approval(world: &mut World, body: &[u8], now: Moment) -> SimulatorResponse {
    let Ok(approval) = serde_json::from_slice::<Approval>(body) else {
        return bad_request(
            "Bad request. The body is no list of StartRequests, each with an EventId.",
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
        Ok(()) => SimulatorResponse::json(StatusCode::OK, Vec::new()),
        Err(unknown) => bad_request(&format!("Bad request. {unknown}.")),
    }
}

fn instance(world: &World, ask: &Ask<'_>) -> SimulatorResponse {
    if ask.method != Method::GET {
        return not_allowed("GET");
    }
    let version = match version(ask.query, &vm::VERSIONS) {
        Ok(version) => version,
        Err(reply) => return reply,
    };
    let is_text = parameters(ask.query)
        .any(|(name, value)| name == "format" && value.eq_ignore_ascii_case("text"));
    let document = world.vm().instance_document(version);
    // The case of member names is the document's, whatever the case of what stands before them.
    let found = ask
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
            bad_request("Bad request. A single value has the form text: add format=text.")
        }
        Some(_) if is_text => bad_request("Bad request. Only a single value has the form text."),
        Some(value) => SimulatorResponse::of(StatusCode::OK, value),
    }
}

/// The version that is asked for, or the refusal; a parameter that stands twice is refused too.
fn version<'v>(query: &str, known: &[&'v str]) -> Result<&'v str, SimulatorResponse> {
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
    let asked = parameters(query)
        .find(|(name, _)| name.eq_ignore_ascii_case("api-version"))
        .map(|(_, value)| value);
    let found = known
        .iter()
        .copied()
        .find(|version| asked == Some(*version));
    found.ok_or_else(|| {
        let text = "Bad request. api-version is invalid or was not specified in the request.";
        let newest: Vec<&str> = vm::VERSIONS.iter().rev().take(3).copied().collect();
        SimulatorResponse::of(
            StatusCode::BAD_REQUEST,
            &json!({ "error": text, "newest-versions": newest }),
        )
    })
}

fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
}

fn error(status: StatusCode, text: &str) -> SimulatorResponse {
    SimulatorResponse::of(status, &json!({ "error": text }))
}

fn bad_request(text: &str) -> SimulatorResponse {
    error(StatusCode::BAD_REQUEST, text)
}

fn not_allowed(methods: &str) -> SimulatorResponse {
    error(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed").with(ALLOW, methods)
}
