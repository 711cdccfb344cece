//! Prometheus and OpenTelemetry exporter for Azure Scheduled Events: the map of the house.
//!
//! Azure announces maintenance of a VM (freeze, reboot, redeploy, Spot eviction, deletion) on an address that only the
//! VM itself can read, and forgets it when it is over. This crate asks there, follows each event from first sight to its
//! end, and shows and sends what it knows.
//!
//! # The way through it
//!
//! ```text
//! imds ──bytes──▶ document ──Document──▶ lifecycle::Tracker ──Vec<Transition>──▶ otlp::trace ──▶ spool ──▶ otlp::sender
//!   ▲                                        │      │
//! imds::cadence (when to ask again)   state ◀┘      └──events─▶ Snapshot ──▶ metrics, web
//! ```
//!
//! [`imds`] asks, and fails with a classified error or hands over a [`document::Document`]. The one event loop, in
//! [`app`], reads the clock once and calls [`lifecycle::Tracker::observe`]. A failed poll has no document to give, so a
//! failure can never end an event: the types say so. What happened comes back as values; the loop carries out what
//! follows from it in this order: spans to the spool, the state file, one immutable [`snapshot::Snapshot`] for every reader. A
//! scrape, the status page, the JSON and the probes take that picture once and render it: two numbers of one answer are
//! never from two instants.
//!
//! # Rooms
//!
//! | room | what it is for |
//! |---|---|
//! | [`event`], [`time`], [`text`] | the vocabulary: Azure's words; points in time and the only reader of clocks; foreign text made fit to be shown |
//! | [`document`] | bytes to a document and a list of its oddities |
//! | [`lifecycle`] | follows events from document to document; pure |
//! | [`snapshot`] | the picture that every reader sees; plain data |
//! | [`metrics`] | the picture as OpenMetrics and Prometheus text; the catalog of all metrics |
//! | [`approval`] | whether to approve an event; what `approve` says |
//! | [`azure_json`], [`list`] | an event in Azure's own form; the pending events as a table |
//! | [`imds`] | the client of Azure's Instance Metadata Service, and when to ask it again |
//! | [`heartbeat`] | measures how long this VM stood still |
//! | [`state`] | what must survive a restart, in one file |
//! | [`otlp`] | what happened as spans, the spool that keeps them, the sender that brings them to a collector |
//! | [`server`] | the HTTP accept loop under [`web`] and [`simulator`] |
//! | [`alertmanager`] | the picture as alerts, and telling Alertmanager of them |
//! | [`web`] | status page, metrics, JSON and probes |
//! | [`simulator`] | a faithful imitation of the service, for tests, demos and game days |
//! | [`app`] | wiring, the one event loop, the order of effects |
//! | [`cli`], [`config`], [`command`] | what was typed, what it means, what is done about it |
//! | [`listen`], [`logs`], [`system`] | sockets, log lines, what differs from system to system |
//!
//! # Layers: an import may only point down
//!
//! ```text
//! main → command → cli, config, app
//! app, config → everything below
//! edges, the only code that does I/O: imds::{client, identity}, heartbeat, state, otlp::{spool, sender},
//!   alertmanager::push, web, simulator;
//!   under them server, listen, system
//! projections and policies, pure: metrics, otlp::{trace, resource, settings}, alertmanager::alert,
//!   web::{status, events, probe}, imds::cadence, approval, azure_json, list
//! core, pure: lifecycle, document, snapshot
//! vocabulary: event, time, text
//! ```
//!
//! Edges do not know each other. `tests/it/tidy` reads the imports and holds this table.
//!
//! # What must never be
//!
//! - An answer that is no scheduled-events document read as "no events".
//! - An event ended by a failure, or lost for the fault of its neighbour in the document.
//! - A value shown that is not known: the series is absent instead.
//! - A panic that something outside can reach; a second request to IMDS while one is under way.
//! - A POST to IMDS that nobody asked for.

pub mod alertmanager;
pub mod app;
pub mod approval;
pub mod azure_json;
pub mod cli;
pub mod command;
pub mod config;
pub mod document;
pub mod engine;
pub mod event;
pub mod heartbeat;
pub mod imds;
pub mod lifecycle;
pub mod list;
pub mod listen;
pub mod logs;
pub mod metrics;
pub mod otlp;
pub mod server;
pub mod simulator;
pub mod snapshot;
pub mod state;
pub mod system;
pub mod text;
pub mod time;
pub mod web;
pub mod worker;
