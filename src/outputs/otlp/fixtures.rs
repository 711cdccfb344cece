//! This VM, an event of it and its transitions, for the tests of spans, log records and resources.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Signal,
    settings::{ExporterSettings, OtlpSettings},
    trace::vm_key,
};
use crate::{
    azure::{
        Identity,
        document::Document,
        event::{Event, EventId, EventType, Source, Status},
    },
    base::time::{Moment, Timestamp},
    core::lifecycle::{Interruption, Tracker, Transition},
};

pub(super) const ID: &str = "602D9444-D2CD-49C7-8624-8643E7171297";
pub(super) const OWN: &str = "web_0";

/// The settings of the export to `http://collector:4318`, unless the environment has another endpoint.
pub(super) fn settings(environment: &[(&str, &str)]) -> OtlpSettings {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
    let all: BTreeMap<_, _> = [endpoint]
        .into_iter()
        .chain(environment.iter().copied())
        .collect();
    let read = |name: &str| all.get(name).map(|value| (*value).to_owned());
    OtlpSettings::from_env(read).unwrap().unwrap()
}

/// Those of the export of spans.
pub(super) fn exporter_settings(environment: &[(&str, &str)]) -> ExporterSettings {
    let settings = settings(environment);
    settings.exporter(Signal::Traces).unwrap().clone()
}

pub(super) fn identity() -> Identity {
    Identity {
        name: "aks-pool1-41265337-vmss_2".to_owned(),
        vm_id: "8f1e9b6a-32b7-4b0c-9d21-6a4b6f7c1e55".to_owned(),
        scale_set: "aks-pool1-41265337-vmss".to_owned(),
        vm_size: "Standard_D8s_v5".to_owned(),
        location: "westeurope".to_owned(),
        subscription_id: "5d9c1c62-51e5-4d4c-8a2f-0f8a2d9f5a10".to_owned(),
        resource_group: "mc_prod".to_owned(),
        resource_id: "/subscriptions/x/vm".to_owned(),
        computer_name: "aks-pool1-41265337-vmss000002".to_owned(),
        zone: String::new(),
        owner: None,
        is_partial: false,
    }
}

pub(super) fn event(status: Status) -> Event {
    Event {
        id: EventId::new(ID),
        event_type: EventType::Reboot,
        status,
        source: Some(Source::Platform),
        resource_type: Some("VirtualMachine".into()),
        resources: Some(vec![OWN.into(), "_web_1".into()]),
        has_more_resources: false,
        not_before: Timestamp::from_unix_seconds(2_000),
        is_duration_unknown: false,
        duration_seconds: Some(9),
        description: Some("Host server is undergoing maintenance.".into()),
        unknown_members: Vec::new(),
    }
}

/// Scheduled, with another `NotBefore`.
pub(super) fn moved(seconds: i64) -> Event {
    Event {
        not_before: Timestamp::from_unix_seconds(seconds),
        ..event(Status::Scheduled)
    }
}

pub(super) fn moment(seconds: i64) -> Moment {
    Moment::new(
        Timestamp::from_unix_seconds(seconds).unwrap(),
        Duration::from_secs(u64::try_from(seconds).unwrap()),
    )
}

pub(super) fn document(events: Vec<Event>) -> Document {
    Document {
        events,
        ..Document::default()
    }
}

pub(super) fn vm() -> String {
    vm_key(Some(OWN))
}

pub(super) fn tracker() -> Tracker {
    Tracker::default()
}

/// The transitions of a sequence of documents, each with the second when it is observed.
pub(super) fn transitions_of(documents: &[(i64, Vec<Event>)]) -> Vec<Transition> {
    let mut tracker = tracker();
    let observe = |(at, events): &(i64, Vec<Event>)| {
        tracker.observe(&document(events.clone()), Some(OWN), moment(*at))
    };
    documents.iter().flat_map(observe).collect()
}

pub(super) fn interruption(until: i64, milliseconds: u64) -> Interruption {
    Interruption {
        until: moment(until).wall,
        length: Duration::from_millis(milliseconds),
    }
}
