//! Prometheus and OpenTelemetry exporter for Azure Scheduled Events: crate overview.
//!
//! Azure announces maintenance of a VM (freeze, reboot, redeploy, Spot eviction, deletion) at an address that only the
//! VM itself can read, and drops the event from the document when it ends. This crate polls that document, tracks each
//! event from its announcement to its end, and serves and sends what it knows.
//!
//! # Data flow
//!
//! ```text
//! imds ──Result──▶ engine ──Effects──▶ app::runner ──▶ journal and state on disk, snapshot
//!                    ▲                        │
//!                    └── clock, results of effects
//!
//! snapshot ──▶ assessment ──▶ metrics, web, due_alerts, otlp::log_record
//!    └──── journal ──▶ web::api, otlp::cursor ──▶ otlp::sender
//! output_counters ──▶ metrics
//! ```
//!
//! [`imds`] returns a classified error or a [`document::Answer`]. Only a document can end an event, and a failed poll
//! has none. The [`engine`] takes the result as an input and returns effects; inside it
//! [`lifecycle`] compares the document with the tracked events, [`approval`] decides what to approve, and each change that
//! readers are told becomes a numbered entry of the [`journal`]. The event loop in [`app`] performs the effects in their
//! order: the journal and the state to disk, then one immutable [`snapshot::Snapshot`] for every reader. A scrape, the
//! status page, the JSON and the probes take that snapshot once: all values of a response come from the same snapshot.
//! Only what the outputs count is read from the outputs themselves ([`output_counters`]). The OTLP senders and the
//! Alertmanager pushers run on a thread of their own and delay nothing.
//!
//! From a poll to a span, or a log record: [`imds::Client`] → [`document::parse`] → `Engine::handle(Input::Polled)` →
//! `lifecycle::Tracker::observe` → [`lifecycle::Transition`] → [`journal::Entry`] → `Effect::Publish` → `otlp::cursor` →
//! `otlp::sender` → `otlp::trace`, `otlp::log_record`. The engine knows no output.
//!
//! # Folders
//!
//! A folder imports only from the folders above it in this table, and `simulator` only from `base`, `http` and `azure`.
//! `core` is pure: no clock, no socket, no file; its engine logs. `tests/it/tidy/layers.rs` checks both.
//!
//! | folder | purpose |
//! |---|---|
//! | `base` | what every other folder uses: [`time`], untrusted text made printable, sets of label values, bounded JSON, [`file`](mod@file)s that survive a crash, the thread for blocking work ([`worker`]), backoff, IDs of log lines; what differs between operating systems (`system`) |
//! | `http` | the HTTP [`server`] and its sockets ([`listen`]), the file of `--web.config.file` ([`web_config`]), and what our HTTP clients have in common (`client`) |
//! | `azure` | Azure's terms and their forms: types and IDs of events ([`event`]), [`api_version`]s, bytes to a [`document`] and its anomalies, the table of an event's members and its JSON (`event::Member`), and the client of the Instance Metadata Service ([`imds`]) with its errors ([`RequestError`]) and the [`Identity`] that it reads |
//! | `core` | what is known and decided: [`lifecycle`] tracks events from document to document; [`approval`] decides what to approve; `assessment` says what an event means for this VM, its alerts and the words about it; [`engine`] maps inputs to effects; [`journal`] numbers what readers are told; [`snapshot`] is what every reader sees; [`pause`] measures interruptions |
//! | `outputs` | what leaves the process: [`metrics`], the pages and JSON of [`web`], spans and log records ([`otlp`]), the alerts that are due ([`due_alerts`]) and their push to [`alertmanager`], the files of [`state`] and journal, and what they count |
//! | [`simulator`] | a simulated Azure, for tests, demos and game days |
//! | `program` | flags ([`cli`]), resolved settings ([`config`]), commands ([`command`]), log output ([`logs`]), and the wiring with the event loop ([`app`]) |
//!
//! # Public surface
//!
//! The crate is not published, and an item is private or `pub(crate)` unless another target uses it. The binary, the
//! integration tests, the benchmarks and the fuzz targets use the modules that are exported below under their short
//! names. So the compiler reports all other dead code.
//!
//! # Invariants
//!
//! - Only a scheduled-events document with an empty `Events` array means "no events", or a minute of 200 responses with
//!   empty bodies.
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

pub use azure::{FailureReason, Identity, RequestError, api_version, document, event, imds};
pub use base::{file, time, worker};
pub use core::{approval, engine, journal, lifecycle, pause, snapshot};
pub use http::{listen, server, web_config};
pub use outputs::{alertmanager, due_alerts, metrics, otlp, output_counters, state, web};
pub use program::{CommandError, app, cli, command, config, logs};
