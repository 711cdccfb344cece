//! Controls the simulator: its page, and an API for tests and game days.
//!
//! `docs/simulator.md` lists the requests; `POST /simulator/start` accepts the page's form too.
//!
//! Cross-origin requests of browsers are refused.

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, LOCATION, ORIGIN,
        REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    Request, Response, empty, error, json_response, not_allowed, page, response,
    scenario::Scenario, scenario_file::catalog, with_header, world::World,
};
use crate::base::time::{Moment, Timestamp};

/// Allows the page's own style sheet, script, icon, requests and forms only.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const FORM: &str = "application/x-www-form-urlencoded";

pub(super) fn respond(world: &mut World, request: &Request, now: Moment) -> Response {
    world.advance(now);
    let path = request.uri().path();
    let asset = page::ASSETS.iter().find(|(known, ..)| *known == path);
    let mut response = match (path, request.method()) {
        ("/", &Method::GET) => {
            let page = page::page(world, now);
            response(StatusCode::OK, "text/html; charset=utf-8", page)
        }
        ("/simulator/state", &Method::GET) => json_response(&state(world, now)),
        ("/simulator/scenarios", &Method::GET) => json_response(&scenarios()),
        ("/simulator/start" | "/simulator/clear", &Method::POST) => command(world, request, now),
        ("/" | "/simulator/state" | "/simulator/scenarios", _) => not_allowed("GET"),
        ("/simulator/start" | "/simulator/clear", _) => not_allowed("POST"),
        (_, method) => match asset {
            Some((_, content_type, content)) if method == Method::GET => {
                response(StatusCode::OK, content_type, *content)
            }
            Some(_) => not_allowed("GET"),
            None => error(
                StatusCode::NOT_FOUND,
                "not found: the simulated service is under /metadata, the page is /",
            ),
        },
    };
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        response = with_header(response, name, value);
    }
    response
}

fn command(world: &mut World, request: &Request, now: Moment) -> Response {
    if !is_same_origin(request.headers()) {
        let message = "cross-origin requests are not allowed";
        return error(StatusCode::FORBIDDEN, message);
    }
    if request.uri().path() == "/simulator/clear" {
        world.clear(now);
    } else {
        let scenario = match requested_scenario(request) {
            Ok(scenario) => scenario,
            Err(problem) => return error(StatusCode::BAD_REQUEST, &problem),
        };
        if let Err(problem) = world.start(scenario, now) {
            return error(StatusCode::CONFLICT, &problem);
        }
    }
    if is_form(request.headers()) {
        return with_header(empty(StatusCode::SEE_OTHER), LOCATION, "/");
    }
    json_response(&state(world, now))
}

/// Browsers send `Sec-Fetch-Site`, older ones `Origin`; other clients send neither and are accepted.
fn is_same_origin(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = headers.get(ORIGIN) else {
        return true;
    };
    let origin = origin.as_bytes().strip_prefix(b"http://");
    origin.is_some() && origin == headers.get(HOST).map(HeaderValue::as_bytes)
}

fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with(FORM))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartBody<'a> {
    #[serde(borrow)]
    scenario: &'a RawValue,
}

fn requested_scenario(request: &Request) -> Result<Scenario, String> {
    if is_form(request.headers()) {
        // Not percent-decoded: the names of built-in scenarios need no encoding.
        let body = std::str::from_utf8(request.body()).unwrap_or_default();
        let name = body
            .split('&')
            .find_map(|part| part.strip_prefix("scenario="));
        return Scenario::named(name.ok_or("the form has no scenario")?);
    }
    let start: StartBody<'_> = serde_json::from_slice(request.body())
        .map_err(|error| format!("the body is not {{\"scenario\": …}}: {error}"))?;
    let raw = start.scenario.get();
    match serde_json::from_str::<String>(raw) {
        Ok(name) => Scenario::named(&name),
        Err(_) => Scenario::parse("posted", "in the body", raw.as_bytes()),
    }
}

fn state(world: &World, now: Moment) -> Value {
    let events = world.pending.iter().map(|event| {
        json!({
            "event_id": event.id.as_str(),
            "event_type": event.spec.event_type,
            "event_status": event.status.as_str(),
            "approved": event.is_approved,
            "resources": event.resources,
            "not_before": event.not_before.map(Timestamp::rfc3339),
            "scenario": event.scenario,
            "changes_in_seconds": (event.changes_at - now.monotonic).as_secs_f64(),
        })
    });
    let runs = world
        .runs
        .iter()
        .map(|run| json!({ "scenario": run.scenario.name, "round": run.cycle + 1 }));
    json!({
        "vm": world.vm.name,
        "vms": world.vm_names,
        "speed": world.speed,
        "document_incarnation": world.incarnation,
        "events": events.collect::<Vec<_>>(),
        "playing": runs.collect::<Vec<_>>(),
        "fault": world.fault(now).map(|(spec, _)| spec.fault),
        "requests": world.requests,
    })
}

fn scenarios() -> Value {
    catalog()
        .map(|(name, description)| json!({ "name": name, "description": description }))
        .collect()
}
