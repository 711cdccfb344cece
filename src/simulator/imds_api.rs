//! The simulated metadata service: request checks, the document, approvals and instance metadata.
//!
//! The simulated VM is at `/metadata/…`, and each VM of the started scenarios at `/vm/NAME/metadata/…`. They have the
//! document of events in common, as the VMs of a placement group do.
//!
//! The behaviour follows <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service> and
//! <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events>. `docs/internals/simulator.md` lists the
//! assumptions where these are silent, such as the response to an approval of an unknown event.

use std::{
    collections::BTreeSet,
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
    http::{self, JSON, Request, Response, error, not_allowed},
    scenario::{Fault, FaultSpec},
    vm::Vm,
    world::World,
};
use crate::{
    azure::event::EventId,
    base::time::{Moment, is_date},
};

/// Per request.
const MAX_APPROVALS: usize = 1_000;
/// The versions of instance metadata that an error offers. Source:
/// <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#supported-api-versions>.
const NEWEST_VERSIONS: [&str; 3] = ["2025-04-07", "2024-07-17", "2024-03-15"];
/// Names of VMs in the error about an unknown one.
const MAX_NAMED: usize = 20;

/// The path of a request to the metadata service of a VM, in lower case, as the service ignores case.
#[derive(Debug)]
pub(super) struct MetadataPath {
    /// `None` for the simulated VM.
    vm: Option<String>,
    /// From `/metadata` on, without a slash at the end.
    path: String,
}

impl MetadataPath {
    /// `None` for a path outside the metadata service.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let path = path.to_ascii_lowercase();
        let of_vm = path
            .strip_prefix("/vm/")
            .and_then(|rest| rest.split_once('/'));
        let (vm, path) = match of_vm {
            Some((vm, rest)) => (Some(vm.to_owned()), format!("/{rest}")),
            None => (None, path),
        };
        let path = path.strip_suffix('/').unwrap_or(&path).to_owned();
        path.starts_with("/metadata").then_some(Self { vm, path })
    }

    fn is_events(&self) -> bool {
        self.path.starts_with("/metadata/scheduledevents")
    }
}

/// What the server does with a request.
#[derive(Debug)]
pub enum Action {
    Respond(Response),
    /// Never respond.
    Hang,
    /// Wait this long, then handle the request again.
    Delay(Duration),
    CloseConnection,
}

/// Handles a request to the metadata service, and counts it by its result.
pub fn handle(world: &mut World, request: &Request, now: Moment) -> Action {
    let Some(path) = MetadataPath::parse(request.uri().path()) else {
        return Action::Respond(*not_found());
    };
    world.advance(now);
    let action = act(world, &path, request, now);
    let result = match &action {
        Action::Hang | Action::CloseConnection => "unanswered",
        // Counted when it is handled again.
        Action::Delay(_) => return action,
        Action::Respond(response) => match (response.status(), path.is_events()) {
            (StatusCode::NOT_MODIFIED, _) => "unchanged",
            (StatusCode::OK, true) if request.method() == Method::POST => "approvals",
            (StatusCode::OK, true) => "documents",
            (StatusCode::OK, false) => "metadata",
            _ => "refused",
        },
    };
    *world.requests.entry(result).or_default() += 1;
    action
}

fn act(world: &mut World, path: &MetadataPath, request: &Request, now: Moment) -> Action {
    let (spec, end) = world.fault(now).unzip();
    match spec.map(|spec| spec.fault) {
        Some(Fault::Hang) => Action::Hang,
        Some(Fault::Reset) => Action::CloseConnection,
        Some(Fault::Slow) if path.is_events() => {
            Action::Delay(end.unwrap_or_default() - now.monotonic)
        }
        _ => {
            let response = respond(world, path, request, spec, now);
            Action::Respond(response.unwrap_or_else(|refusal| *refusal))
        }
    }
}

/// The response to a request that is refused.
type Refusal = Box<Response>;

fn respond(
    world: &mut World,
    path: &MetadataPath,
    request: &Request,
    spec: Option<FaultSpec>,
    now: Moment,
) -> Result<Response, Refusal> {
    let vm = match &path.vm {
        None => world.vm.clone(),
        Some(name) => world.find_vm(name).ok_or_else(|| unknown_vm(world, name))?,
    };
    let fault = spec.map(|spec| spec.fault);
    match fault {
        Some(Fault::Gone) => {
            let message = "Gone. The service is being updated, retry within 70 seconds.";
            return Ok(error(StatusCode::GONE, message));
        }
        Some(Fault::Throttled) => return Ok(throttled(spec.and_then(|spec| spec.retry_after))),
        Some(Fault::RateLimit) if !world.accept_request(&vm.name, now) => {
            return Ok(throttled(None));
        }
        Some(Fault::ServerError) => {
            let message = "Internal server error. Retry after some time.";
            return Ok(error(StatusCode::INTERNAL_SERVER_ERROR, message));
        }
        Some(Fault::MetadataProxy) => {
            return Ok(proxy_response(spec.and_then(|spec| spec.status)));
        }
        _ => {}
    }
    check_headers(path, request)?;
    route(world, &vm, path, request, fault, now)
}

fn unknown_vm(world: &World, name: &str) -> Refusal {
    let known: Vec<&str> = world
        .vm_names
        .iter()
        .map(|known| &**known)
        .take(MAX_NAMED)
        .collect();
    let message = format!(
        "no VM {name:?} in the scenarios that were started; known are {}",
        known.join(", ")
    );
    error(StatusCode::NOT_FOUND, &message).into()
}

fn throttled(retry_after: Option<Duration>) -> Response {
    let mut response = error(StatusCode::TOO_MANY_REQUESTS, "Too many requests.");
    if let Some(wait) = retry_after {
        response
            .headers_mut()
            .insert(RETRY_AFTER, wait.as_secs().into());
    }
    response
}

/// The Guest Proxy Agent sends no body, and closes the connection.
fn proxy_response(status: Option<u16>) -> Response {
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let mut response = http::empty(status.unwrap_or(StatusCode::FORBIDDEN));
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// The service's protection against server-side request forgery. The preview of Scheduled Events does not ask for the
/// `Metadata` header.
fn check_headers(path: &MetadataPath, request: &Request) -> Result<(), Refusal> {
    let is_true = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"true");
    let is_preview = path.is_events()
        && api_version(request)
            .and_then(SimulatedVersion::find)
            .is_some_and(SimulatedVersion::is_preview);
    if !is_preview && !request.headers().get("metadata").is_some_and(is_true) {
        return Err(bad_request("Required metadata header not specified"));
    }
    if request.headers().contains_key("x-forwarded-for") {
        let problem = "Requests with an X-Forwarded-For header are not supported.";
        return Err(bad_request(problem));
    }
    Ok(())
}

fn route(
    world: &mut World,
    vm: &Vm,
    path: &MetadataPath,
    request: &Request,
    fault: Option<Fault>,
    now: Moment,
) -> Result<Response, Refusal> {
    let method = request.method();
    if path.path == "/metadata/scheduledevents" {
        return match *method {
            Method::GET => deliver(world, request, fault, now),
            Method::POST => approve(world, request, now),
            _ => Ok(not_allowed("GET, POST")),
        };
    }
    match path.path.strip_prefix("/metadata/instance") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => match *method {
            Method::GET => instance(vm, rest, request),
            _ => Ok(not_allowed("GET")),
        },
        _ => Err(not_found()),
    }
}

fn deliver(
    world: &mut World,
    request: &Request,
    fault: Option<Fault>,
    now: Moment,
) -> Result<Response, Refusal> {
    let version = requested_version(request, SimulatedVersion::find)?;
    let (incarnation, events) = world.deliver(now);
    let body = document(incarnation, events, version);
    Ok(match fault {
        Some(Fault::EmptyBody) => http::response(StatusCode::OK, JSON, ""),
        Some(Fault::Garbage) => http::response(StatusCode::OK, JSON, garbled(body)),
        _ => conditional(body, request.headers()),
    })
}

/// The first half of the document, followed by bytes that are not UTF-8.
fn garbled(document: String) -> Vec<u8> {
    let mut bytes = document.into_bytes();
    bytes.truncate(bytes.len() / 2);
    bytes.extend_from_slice(b"\xff\xfe\x00\xc3(");
    bytes
}

/// Responds with 304 if `If-None-Match` names the document.
fn conditional(body: String, headers: &HeaderMap) -> Response {
    let tag = entity_tag(&body);
    let known = headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes);
    let mut response = if known == Some(tag.as_bytes()) {
        http::empty(StatusCode::NOT_MODIFIED)
    } else {
        http::response(StatusCode::OK, JSON, body)
    };
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
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
struct ApprovalBody {
    #[serde(rename = "StartRequests")]
    start_requests: Vec<StartRequest>,
}

#[derive(Deserialize)]
struct StartRequest {
    #[serde(rename = "EventId")]
    event_id: String,
}

fn approve(world: &mut World, request: &Request, now: Moment) -> Result<Response, Refusal> {
    requested_version(request, SimulatedVersion::find)?;
    let approval: ApprovalBody = serde_json::from_slice(request.body()).map_err(|_| {
        bad_request("The body is not a list of StartRequests, each with an EventId.")
    })?;
    let requests = approval.start_requests.iter();
    if requests.len() == 0 || requests.len() > MAX_APPROVALS {
        return Err(bad_request("StartRequests is empty or too long."));
    }
    let ids: Vec<_> = requests
        .map(|request| EventId::new(&request.event_id))
        .collect();
    match world.approve(&ids, now) {
        Ok(()) => Ok(http::response(StatusCode::OK, JSON, "")),
        Err(unknown) => Err(bad_request(&format!("{unknown}."))),
    }
}

/// Responds with the value at `path` below `/metadata/instance`: JSON, or the text of a single value. Any date is a
/// version, and all of them have the same members.
fn instance(vm: &Vm, path: &str, request: &Request) -> Result<Response, Refusal> {
    requested_version(request, |name| is_date(name).then_some(()))?;
    let is_text = parameters(request)
        .any(|(name, value)| name == "format" && value.eq_ignore_ascii_case("text"));
    let document = vm.instance_document();
    let mut steps = path.split('/').filter(|step| !step.is_empty());
    let found = steps.try_fold(&document, |value, step| {
        let mut members = value.as_object()?.iter();
        let (_, value) = members.find(|(name, _)| name.eq_ignore_ascii_case(step))?;
        Some(value)
    });
    match found.ok_or_else(not_found)? {
        Value::String(text) if is_text => {
            let content_type = "text/plain; charset=utf-8";
            Ok(http::response(StatusCode::OK, content_type, text.clone()))
        }
        Value::String(_) => Err(bad_request(
            "A single value is available as text only: add format=text.",
        )),
        value => Ok(http::json(value)),
    }
}

/// Returns the version that `find` finds for the query.
fn requested_version<T>(request: &Request, find: impl Fn(&str) -> Option<T>) -> Result<T, Refusal> {
    let mut names = BTreeSet::new();
    if !parameters(request).all(|(name, _)| names.insert(name.to_ascii_lowercase())) {
        return Err(bad_request(
            "A query parameter was specified more than once.",
        ));
    }
    api_version(request).and_then(find).ok_or_else(|| {
        let message = "Bad request. api-version is invalid or was not specified in the request.";
        let body = json!({ "error": message, "newest-versions": NEWEST_VERSIONS });
        http::response(StatusCode::BAD_REQUEST, JSON, body.to_string()).into()
    })
}

fn api_version(request: &Request) -> Option<&str> {
    parameters(request)
        .find(|(name, _)| name.eq_ignore_ascii_case("api-version"))
        .map(|(_, value)| value)
}

fn parameters(request: &Request) -> impl Iterator<Item = (&str, &str)> {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
}

fn bad_request(problem: &str) -> Refusal {
    let message = format!("Bad request. {problem}");
    error(StatusCode::BAD_REQUEST, &message).into()
}

fn not_found() -> Refusal {
    error(StatusCode::NOT_FOUND, "Not found").into()
}
