//! Prometheus and OpenTelemetry exporter for Azure Scheduled Events: crate overview.
//!
//! Azure announces maintenance of a VM (freeze, reboot, redeploy, Spot eviction, deletion) at an address that only the
//! VM itself can read, and drops the event from the document when it ends. This crate polls that document, tracks each
//! event from its announcement to its end, and serves and sends what it knows.
//!
//! # Data flow
//!
//! ```text
//! imds ──Result──▶ engine ──Effects──▶ app::event_loop ──▶ spool, state file, snapshot
//!                    ▲                        │
//!                    └── clock, results of effects
//!
//! snapshot ──▶ assessment ──▶ metrics, web, alertmanager::alert, otlp::log_record
//!                             spool, metrics ──▶ otlp::sender
//! ```
//!
//! [`imds`] returns a classified error or a [`document::Answer`]. Only a document can end an event, and a failed poll
//! has none. The [`engine`] takes the result as an input and returns effects; inside it
//! [`lifecycle`] compares the document with the tracked events, and [`approval`] decides what to approve. The event
//! loop in [`app`] performs the effects in their order: what is sent of each change to the spools, the state file, one
//! immutable [`snapshot::Snapshot`] for every reader. A scrape, the status page, the JSON and the probes take that
//! snapshot once: all values of a response come from the same snapshot. The OTLP senders and the Alertmanager pushers
//! run on a thread of their own and delay nothing.
//!
//! From a poll to a span, or a log record: `imds::client` → [`document::parse`] → `Engine::handle(Input::Polled)` →
//! `lifecycle::Tracker::observe` → [`lifecycle::Transition`] → `Effect::Emit` → `otlp::batch::of` → `otlp::spool` →
//! `otlp::sender`. The engine knows no output.
//!
//! # Modules
//!
//! | module | purpose |
//! |---|---|
//! | [`event`], [`api_version`], [`time`], `text`, `label`, `log_id` | basic types: Azure's terms and API versions; points in time, durations and the only reader of clocks; untrusted text made printable; sets of label values; IDs of log lines |
//! | [`document`] | bytes to a document and a list of its anomalies |
//! | [`lifecycle`] | tracks events from document to document |
//! | [`snapshot`] | what every reader sees; plain data |
//! | [`approval`] | the approval policy; the limits of its requests |
//! | `assessment` | what an event means for this VM: when it starts, its alerts, the words about it; every output reads it |
//! | [`engine`] | the sans-I/O state machine at the centre: inputs to effects |
//! | [`pause`] | measures interruptions of this VM |
//! | [`metrics`] | the snapshot as OpenMetrics, Prometheus text and data points of OTLP; the catalog of all metrics |
//! | `azure_json` | an event in Azure's own JSON |
//! | [`imds`] | the client of Azure's Instance Metadata Service, the delay before the next request and its timeout |
//! | [`state`] | what must survive a restart, in one file |
//! | [`otlp`] | spans and log records, the spools that keep them, the senders that export them and push the metrics |
//! | [`alertmanager`] | the snapshot as alerts, and the push to Alertmanager |
//! | [`web`] | status page, metrics, JSON and probes |
//! | [`web_config`] | the file of `--web.config.file`: TLS, passwords, headers and a rate limit for [`web`] |
//! | [`simulator`] | a simulated IMDS, for tests, demos and game days |
//! | `outbound` | what the HTTP clients have in common: setup, credentials, retry timing, name resolution, error causes, URL checks |
//! | [`file`](mod@file), `json` | files that survive a crash; JSON of a bounded size |
//! | [`server`], [`listen`] | the HTTP server of [`web`] and [`simulator`]; listening sockets |
//! | [`worker`], `system` | the thread for blocking work; what differs between operating systems |
//! | [`app`] | wiring, the poller, the event loop, shutdown |
//! | [`cli`], [`config`], [`command`], [`logs`] | flags, resolved settings, commands, log output |
//!
//! # Layers: an import may only point down
//!
//! ```text
//! main → command → cli, config, logs, app
//! app, config → everything below
//! I/O: imds::{client, identity}, state, otlp::{spool, sender}, alertmanager::push, web, web_config, simulator;
//!   below them outbound::{http, credentials, resolver, error}, file, server, listen, worker, system
//! pure: engine; metrics, otlp::{trace, log_record, batch, attribute, signal, resource, settings},
//!   alertmanager::alert, web::{status, api, probe}, command::watch::transitions,
//!   imds::{backoff, timeouts}, approval, pause, azure_json, json, outbound::{retry, url},
//!   web_config::{settings, tls_settings, yaml, password, rate_limit}
//! core, pure: assessment; below it snapshot, lifecycle, document
//! basic types: event, api_version, time, text, label, log_id
//! ```
//!
//! I/O modules do not import each other, and files do not import each other in a cycle. `tests/it/tidy` checks both.
//!
//! # Public surface
//!
//! The crate is not published, and an item is private or `pub(crate)` unless another target uses it. The binary uses
//! [`cli`], [`command`] and [`logs`]. The integration tests, benchmarks and fuzz targets use what a whole exporter is
//! made of ([`app`], [`config`], [`imds`], [`otlp`], [`alertmanager`], [`server`], [`simulator`], [`state`], [`web`],
//! [`web_config`], [`worker`], [`file`](mod@file), [`listen`]) and what it computes with ([`engine`], [`document`],
//! [`event`], [`lifecycle`], [`snapshot`], [`approval`], [`metrics`], [`pause`], [`api_version`], [`time`]). So the
//! compiler reports all other dead code.
//!
//! # Invariants
//!
//! - Only a scheduled-events document with an empty `Events` array means "no events", or a minute of 200 responses with
//!   empty bodies (`imds::empty`).
//! - A failure ends no event, and an unreadable event does not hide the others of its document.
//! - A value that is not known is not exposed: its series is absent.
//! - External input cannot cause a panic. At most one request to IMDS is in flight.
//! - No approval is sent without a flag or the command that asks for it.

mod azure;
mod base;
mod core;
mod http;
mod outputs;
mod program;
pub mod simulator;

pub use azure::{api_version, document, event, imds};
pub use base::{file, time, worker};
pub use core::{approval, engine, lifecycle, pause, snapshot};
pub use http::{listen, server, web_config};
pub use outputs::{alertmanager, metrics, otlp, state, web};
pub use program::{app, cli, command, config, logs};
