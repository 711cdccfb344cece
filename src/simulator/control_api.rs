//! The way to drive the simulator: its page for people, and a small API for tests and game days.
//!
//! | path | does |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /simulator/state` | what is going on, as JSON |
//! | `GET /simulator/scenarios` | the built-in scenarios, as JSON |
//! | `POST /simulator/start` | starts a scenario: `{"scenario": "NAME"}`, `{"scenario": {…}}` with the content of a scenario file, or the page's form |
//! | `POST /simulator/clear` | ends all scenarios, events and faults |
//!
//! A page of another origin that a browser shows cannot drive it.

use std::sync::Arc;

use hyper::{
    HeaderMap, Method, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION, ORIGIN,
        REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    catalog::catalog, counts::RequestCounts, imds_api::Ask, page, reply::SimulatorResponse,
    scenario::Scenario, world::World,
};
use crate::time::{Moment, Timestamp};

/// The page's own style and forms, and nothing else.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const FORM: &str = "application/x-www-form-urlencoded";

/// Answers a request that is none for the metadata service.
pub fn answer(
    world: &mut World,
    counts: &RequestCounts,
    ask: &Ask<'_>,
    now: Moment,
) -> SimulatorResponse {
    world.advance(now);
    let reply = match (ask.path, ask.method) {
        ("/", &Method::GET) => SimulatorResponse::new(
            StatusCode::OK,
            "text/html; charset=utf-8",
            page::page(world, counts, now),
        ),
        ("/simulator/page.css", &Method::GET) => {
            SimulatorResponse::new(StatusCode::OK, "text/css; charset=utf-8", page::STYLE)
        }
        ("/simulator/state", &Method::GET) => {
            SimulatorResponse::of(StatusCode::OK, &state(world, counts, now))
        }
        ("/simulator/scenarios", &Method::GET) => {
            SimulatorResponse::of(StatusCode::OK, &scenarios())
        }
        ("/simulator/start" | "/simulator/clear", &Method::POST) => {
            command(world, counts, ask, now)
        }
        ("/" | "/simulator/page.css" | "/simulator/state" | "/simulator/scenarios", _) => {
            not_allowed("GET")
        }
        ("/simulator/start" | "/simulator/clear", _) => not_allowed("POST"),
        _ => error(
            StatusCode::NOT_FOUND,
            "nothing is here; the simulated service is below /metadata, the page is /",
        ),
    };
    reply
        .with(CONTENT_SECURITY_POLICY, CONTENT_POLICY)
        .with(X_CONTENT_TYPE_OPTIONS, "nosniff")
        .with(REFERRER_POLICY, "same-origin")
        .with(CACHE_CONTROL, "no-store")
}

fn command(
    world: &mut World,
    counts: &RequestCounts,
    ask: &Ask<'_>,
    now: Moment,
) -> SimulatorResponse {
    if !is_same_origin(ask.headers) {
        return error(
            StatusCode::FORBIDDEN,
            "only the simulator's own page and programs may do that",
        );
    }
    if ask.path == "/simulator/clear" {
        world.clear(now);
    } else {
        let scenario = match wanted(ask) {
            Ok(scenario) => scenario,
            Err(why) => return error(StatusCode::BAD_REQUEST, &why),
        };
        if let Err(why) = world.start(Arc::new(scenario), now) {
            return error(StatusCode::CONFLICT, &why.to_string());
        }
    }
    if is_form(ask.headers) {
        let reply =
            SimulatorResponse::new(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "done\n");
        return reply.with(LOCATION, "/");
    }
    SimulatorResponse::of(StatusCode::OK, &state(world, counts, now))
}

/// What a browser sends for another site's page says so in `Sec-Fetch-Site`, or else in `Origin`; programs send neither.
fn is_same_origin(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = headers.get(ORIGIN) else {
        return true;
    };
    let own = headers.get(HOST).and_then(|host| host.to_str().ok());
    let theirs = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.strip_prefix("http://"));
    own.is_some() && own == theirs
}

fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with(FORM))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Start<'a> {
    #[serde(borrow)]
    scenario: &'a RawValue,
}

fn wanted(ask: &Ask<'_>) -> Result<Scenario, String> {
    let named = |name: &str| Scenario::named(name).map_err(|error| error.to_string());
    if is_form(ask.headers) {
        // The names of scenarios have nothing in them that a form would encode.
        let body = std::str::from_utf8(ask.body).unwrap_or_default();
        let name = body
            .split('&')
            .find_map(|part| part.strip_prefix("scenario="));
        return named(name.ok_or("the form has no scenario")?);
    }
    let start: Start<'_> = serde_json::from_slice(ask.body)
        .map_err(|error| format!("the body is not {{\"scenario\": …}}: {error}"))?;
    let raw = start.scenario.get();
    match serde_json::from_str::<String>(raw) {
        Ok(name) => named(&name),
        Err(_) => Scenario::parse("posted", "in the body", raw.as_bytes())
            .map_err(|error| error.to_string()),
    }
}

fn state(world: &World, counts: &RequestCounts, now: Moment) -> Value {
    let events = world.pending().iter().map(|event| {
        json!({
            "event_id": event.id.as_str(),
            "event_type": event.planned.event_type,
            "event_status": if event.is_started() { "Started" } else { "Scheduled" },
            "resources": event.resources,
            "not_before": event.not_before.map(Timestamp::rfc3339),
            "scenario": event.scenario,
            "changes_in_seconds": event.changes_at.saturating_sub(now.monotonic).as_secs_f64(),
        })
    });
    let playing = world.playing().iter().map(
        |playing| json!({ "scenario": playing.scenario().name, "round": playing.cycle() + 1 }),
    );
    let requests: serde_json::Map<String, Value> = counts
        .all()
        .into_iter()
        .map(|(what, count)| (what.to_owned(), count.into()))
        .collect();
    json!({
        "vm": world.vm().name(),
        "speed": world.speed(),
        "document_incarnation": world.incarnation(),
        "events": events.collect::<Vec<_>>(),
        "playing": playing.collect::<Vec<_>>(),
        "fault": world.fault(now).map(|(fault, _)| fault.as_str()),
        "requests": requests,
    })
}

fn scenarios() -> Value {
    catalog()
        .map(|(name, description)| json!({ "name": name, "description": description }))
        .collect()
}

fn error(status: StatusCode, text: &str) -> SimulatorResponse {
    SimulatorResponse::of(status, &json!({ "error": text }))
}

fn not_allowed(methods: &str) -> SimulatorResponse {
    error(StatusCode::METHOD_NOT_ALLOWED, "method not allowed").with(ALLOW, methods)
}
