//! What leaves the process: metrics, web pages, OTLP, alerts, and the files of the state directory.

pub mod alertmanager;
pub mod due_alerts;
pub mod metrics;
pub mod otlp;
pub mod output_counters;
mod schedule;
pub mod state;
pub(crate) mod textfile;
pub mod web;
