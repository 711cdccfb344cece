//! The lower part of the page: state of polling, identity of this VM, links.

use maud::{Markup, html};

use super::{elapsed, fact, freshness, labels, plain};
use crate::{base::time::Moment, core::snapshot::Snapshot, outputs::web::ProbeResult};

pub(super) const DOCUMENTATION: &str = if cfg!(windows) {
    "https://learn.microsoft.com/azure/virtual-machines/windows/scheduled-events"
} else {
    "https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events"
};

pub(super) fn section(snapshot: &Snapshot, serving: &ProbeResult, now: Moment) -> Markup {
    html! {
        section.about aria-label="About this exporter" data-testid="about" {
            div {
                h2 { "Polling" }
                (polling(snapshot, serving, now))
            }
            @if snapshot.identity.is_some() || snapshot.vm_name.is_some() {
                div {
                    h2 { "This VM" }
                    (identity(snapshot))
                }
            }
        }
    }
}

pub(super) fn footer(telemetry_path: &str) -> Markup {
    html! {
        footer {
            nav aria-label="Links" {
                a href=(telemetry_path.trim_start_matches('/')) { "Metrics" }
                a href="api/v1/events" { "JSON" }
                a href="-/healthy" { "Healthy" }
                a href="-/ready" { "Ready" }
                a href="-/serving" { "Serving" }
                a href=(DOCUMENTATION) rel="noreferrer" { "Azure documentation" }
            }
            p { "azure-scheduled-events-exporter " (env!("CARGO_PKG_VERSION")) " (" (env!("BUILD_REVISION")) ")" }
        }
    }
}

fn polling(snapshot: &Snapshot, serving: &ProbeResult, now: Moment) -> Markup {
    let health = &snapshot.health;
    let failure = html! {
        @if let Some(failure) = &health.failure {
            (labels::failure(failure.reason)) " Failing for " (elapsed(failure.since, now)) ". "
            code { (plain(&failure.message)) }
        }
    };
    let incarnation = html! { @if let Some(incarnation) = health.incarnation { (incarnation) } };
    let failed: u64 = health.failures.iter().sum();
    html! {
        dl.facts {
            (fact("Last poll", &html! { @if health.is_up(now) { "succeeded" } @else if health.failure.is_some() { "failed" } @else { "not finished yet" } }))
            (fact("Freshness", &freshness(snapshot, now)))
            (fact("Failure", &failure))
            (fact("Requests", &html! { (health.requests) ", " (failed) " failed" }))
            (fact("Document", &html! { @if !incarnation.0.is_empty() { "incarnation " (incarnation) } }))
            (fact("Load balancer", &html! { (plain(&serving.reason)) }))
        }
    }
}

fn identity(snapshot: &Snapshot) -> Markup {
    let name = snapshot.vm_name.as_deref().unwrap_or_default();
    let identity = snapshot.identity.as_deref();
    html! {
        dl.facts {
            (fact("Name", &html! { (plain(name)) }))
            @if let Some(vm) = identity {
                @for (label, value) in [
                    ("Computer", &vm.computer_name),
                    ("Scale set", &vm.scale_set),
                    ("Size", &vm.vm_size),
                    ("Location", &vm.location),
                    ("Zone", &vm.zone),
                    ("Resource group", &vm.resource_group),
                    ("VM ID", &vm.vm_id),
                ] {
                    (fact(label, &html! { (plain(value)) }))
                }
            }
        }
    }
}
