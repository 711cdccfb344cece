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
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use super::{
    JSON, Request, Response, empty, error, json_response, not_allowed, response,
    scenario::Fault,
    vm::Vm,
    with_header,
    world::{PendingEvent, World},
};
use crate::{
    azure::{
        api_version::{ApiVersion, EventField, LATEST_API_VERSION},
        event::{EventId, EventType},
    },
    base::time::{Moment, Timestamp, is_date},
};

/// Per request.
const MAX_APPROVALS: usize = 1_000;
/// The versions of instance metadata that an error offers. Source:
/// <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#supported-api-versions>.
const NEWEST_VERSIONS: [&str; 3] = ["2025-04-07", "2024-07-17", "2024-03-15"];
/// Names of VMs in the error about an unknown one.
const MAX_NAMED: usize = 20;
const EVENTS: &str = "/metadata/scheduledevents";

/// The VM, `None` for the simulated one, and the path from `/metadata` on, without a slash at the end. Both are in lower
/// case, as the service ignores case. `None` for a path outside the metadata service.
pub(super) fn metadata_path(path: &str) -> Option<(Option<String>, String)> {
    let path = path.to_ascii_lowercase();
    let of_vm = path.strip_prefix("/vm/");
    let (vm, path) = match of_vm.and_then(|rest| rest.split_once('/')) {
        Some((vm, rest)) => (Some(vm.to_owned()), format!("/{rest}")),
        None => (None, path),
    };
    let path = path.strip_suffix('/').unwrap_or(&path).to_owned();
    path.starts_with("/metadata").then_some((vm, path))
}

#[derive(Debug)]
pub enum Action {
    Respond(Response),
    Hang,
    /// Wait this long, then handle the request again.
    Delay(Duration),
    CloseConnection,
}

/// Handles a request to the metadata service, and counts it by its result.
pub fn handle(world: &mut World, request: &Request, now: Moment) -> Action {
    let Some((vm, path)) = metadata_path(request.uri().path()) else {
        return Action::Respond(*not_found());
    };
    world.advance(now);
    let action = act(world, vm.as_deref(), &path, request, now)
        .unwrap_or_else(|refusal| Action::Respond(*refusal));
    let is_events = path.starts_with(EVENTS);
    let result = match &action {
        Action::Hang | Action::CloseConnection => "unanswered",
        // Counted when it is handled again.
        Action::Delay(_) => return action,
        Action::Respond(response) => match response.status() {
            StatusCode::NOT_MODIFIED => "unchanged",
            StatusCode::OK if !is_events => "metadata",
            StatusCode::OK if request.method() == Method::POST => "approvals",
            StatusCode::OK => "documents",
            _ => "refused",
        },
    };
    *world.requests.entry(result).or_default() += 1;
    action
}

/// The response to a request that is refused.
type Refusal = Box<Response>;

fn act(
    world: &mut World,
    vm: Option<&str>,
    path: &str,
    request: &Request,
    now: Moment,
) -> Result<Action, Refusal> {
    let (spec, end) = world.fault(now).unzip();
    let fault = spec.map(|spec| spec.fault);
    match fault {
        Some(Fault::Hang) => return Ok(Action::Hang),
        Some(Fault::Reset) => return Ok(Action::CloseConnection),
        Some(Fault::Slow) if path.starts_with(EVENTS) => {
            return Ok(Action::Delay(end.unwrap_or_default() - now.monotonic));
        }
        _ => {}
    }
    let vm = match vm {
        None => world.vm.clone(),
        Some(name) => world.find_vm(name).ok_or_else(|| unknown_vm(world, name))?,
    };
    let response = match fault {
        Some(Fault::Gone) => {
            let message = "Gone. The service is being updated, retry within 70 seconds.";
            error(StatusCode::GONE, message)
        }
        Some(Fault::Throttled) => throttled(spec.and_then(|spec| spec.retry_after)),
        Some(Fault::RateLimit) if !world.accept_request(&vm.name, now) => throttled(None),
        Some(Fault::ServerError) => {
            let message = "Internal server error. Retry after some time.";
            error(StatusCode::INTERNAL_SERVER_ERROR, message)
        }
        Some(Fault::MetadataProxy) => proxy_response(spec.and_then(|spec| spec.status)),
        _ => {
            check_headers(path, request)?;
            route(world, &vm, path, request, fault, now)?
        }
    };
    Ok(Action::Respond(response))
}

fn unknown_vm(world: &World, name: &str) -> Refusal {
    let known = world.vm_names.iter().take(MAX_NAMED).cloned();
    let known = known.collect::<Vec<_>>().join(", ");
    let message = format!("no VM {name:?} in the scenarios that were started; known are {known}");
    error(StatusCode::NOT_FOUND, &message).into()
}

fn throttled(retry_after: Option<Duration>) -> Response {
    let mut response = error(StatusCode::TOO_MANY_REQUESTS, "Too many requests.");
    let retry_after = retry_after.map(|wait| (RETRY_AFTER, wait.as_secs().into()));
    response.headers_mut().extend(retry_after);
    response
}

/// The Guest Proxy Agent sends no body, and closes the connection.
fn proxy_response(status: Option<u16>) -> Response {
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let response = empty(status.unwrap_or(StatusCode::FORBIDDEN));
    with_header(response, CONNECTION, "close")
}

/// The service's protection against server-side request forgery. The preview of Scheduled Events does not ask for the
/// `Metadata` header.
fn check_headers(path: &str, request: &Request) -> Result<(), Refusal> {
    let is_true = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"true");
    let version = api_version(request).and_then(events_version);
    let is_preview = path.starts_with(EVENTS) && version.is_some_and(|it| it.is_preview());
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
    path: &str,
    request: &Request,
    fault: Option<Fault>,
    now: Moment,
) -> Result<Response, Refusal> {
    let below_instance = path.strip_prefix("/metadata/instance");
    let below_instance = below_instance.filter(|it| it.is_empty() || it.starts_with('/'));
    match (below_instance, request.method()) {
        (None, _) if path != EVENTS => Err(not_found()),
        (None, &Method::GET) => deliver(world, request, fault, now),
        (None, &Method::POST) => approve(world, request, now),
        (None, _) => Ok(not_allowed("GET, POST")),
        (Some(path), &Method::GET) => instance(vm, path, request),
        (Some(_), _) => Ok(not_allowed("GET")),
    }
}

fn deliver(
    world: &mut World,
    request: &Request,
    fault: Option<Fault>,
    now: Moment,
) -> Result<Response, Refusal> {
    let version = requested_version(request, events_version)?;
    let (incarnation, events) = world.deliver(now);
    let body = document(incarnation, events, &version);
    Ok(match fault {
        Some(Fault::EmptyBody) => response(StatusCode::OK, JSON, ""),
        Some(Fault::Garbage) => {
            // Half of the document, followed by bytes that are not UTF-8.
            let half = body.as_bytes().split_at(body.len() / 2).0;
            response(StatusCode::OK, JSON, [half, b"\xff\xfe\x00\xc3("].concat())
        }
        _ => conditional(body, request.headers()),
    })
}

/// Responds with 304 if `If-None-Match` names the document. The tag is a hash of the content, because a scenario can
/// reset the incarnation.
fn conditional(body: String, headers: &HeaderMap) -> Response {
    let mut hasher = DefaultHasher::new();
    hasher.write(body.as_bytes());
    let tag = format!("\"{:016x}\"", hasher.finish());
    let known = headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes);
    let mut response = if known == Some(tag.as_bytes()) {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        response(StatusCode::OK, JSON, body)
    };
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// The `DocumentIncarnation` that Microsoft's samples of the first versions send, as a number or a string, is accepted
/// and ignored. So is a missing one.
fn approve(world: &mut World, request: &Request, now: Moment) -> Result<Response, Refusal> {
    requested_version(request, events_version)?;
    let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let requests = body.get("StartRequests").and_then(Value::as_array);
    let id = |request: &Value| Some(EventId::new(request.get("EventId")?.as_str()?));
    let ids: Option<Vec<_>> = requests.and_then(|it| it.iter().map(id).collect());
    let ids = ids.ok_or_else(|| {
        bad_request("The body is not a list of StartRequests, each with an EventId.")
    })?;
    if ids.is_empty() || ids.len() > MAX_APPROVALS {
        return Err(bad_request("StartRequests is empty or too long."));
    }
    match world.approve(&ids, now) {
        Ok(()) => Ok(response(StatusCode::OK, JSON, "")),
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
            Ok(response(StatusCode::OK, content_type, text.clone()))
        }
        Value::String(_) => Err(bad_request(
            "A single value is available as text only: add format=text.",
        )),
        value => Ok(json_response(value)),
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
        response(StatusCode::BAD_REQUEST, JSON, body.to_string()).into()
    })
}

fn api_version(request: &Request) -> Option<&str> {
    parameters(request)
        .find(|(name, _)| name.eq_ignore_ascii_case("api-version"))
        .map(|(_, value)| value)
}

/// A version of the Scheduled Events API: a documented one, or a newer date.
fn events_version(name: &str) -> Option<ApiVersion> {
    ApiVersion::parse(name).filter(|it| it.is_documented() || name > LATEST_API_VERSION)
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

/// The document as the service writes it: one line, members in the order of captured documents, and only the event types
/// and fields of the version.
pub fn document(incarnation: u64, events: &[PendingEvent], version: &ApiVersion) -> String {
    let is_visible = |event: &&PendingEvent| {
        if event.spec.needs_newer_version() {
            return version.name() > LATEST_API_VERSION;
        }
        version.has_event_type(&EventType::new(&event.spec.event_type))
    };
    let visible = events.iter().filter(is_visible);
    let entries: Vec<_> = visible.map(|event| Entry { event, version }).collect();
    // Infallible: the entries consist of strings, numbers and lists of them.
    let entries = serde_json::to_string(&entries).unwrap_or_default();
    format!(r#"{{"DocumentIncarnation":{incarnation},"Events":{entries}}}"#)
}

struct Entry<'a> {
    event: &'a PendingEvent,
    version: &'a ApiVersion,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { event, version } = self;
        let spec = &event.spec;
        let is_preview = version.is_preview();
        let prefix = if is_preview { "_" } else { "" };
        let resources = event.resources.iter();
        let resources: Vec<_> = resources.map(|name| format!("{prefix}{name}")).collect();
        let time = if is_preview {
            Timestamp::rfc3339
        } else {
            Timestamp::rfc1123
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("EventId", event.id.as_str())?;
        map.serialize_entry("EventStatus", event.status.as_str())?;
        map.serialize_entry("EventType", &spec.event_type)?;
        map.serialize_entry("ResourceType", "VirtualMachine")?;
        map.serialize_entry("Resources", &resources)?;
        map.serialize_entry("NotBefore", &event.not_before.map(time).unwrap_or_default())?;
        if version.has_field(EventField::Description) {
            map.serialize_entry("Description", &spec.description)?;
        }
        if version.has_field(EventField::EventSource) {
            map.serialize_entry("EventSource", &spec.event_source)?;
        }
        if version.has_field(EventField::DurationInSeconds) {
            map.serialize_entry("DurationInSeconds", &spec.duration_seconds)?;
        }
        map.end()
    }
}
