//! The OTLP resource: this program and the VM, by OpenTelemetry's semantic conventions 1.44
//! (<https://opentelemetry.io/docs/specs/semconv/resource/>). Pure.
//!
//! `azure.vm.scaleset.name` is not in the conventions; the collector's `resourcedetection` processor writes it. Nor is
//! `owner`, which has the name of the label.

use std::collections::BTreeMap;

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use uuid::{Uuid, uuid};

use super::settings::OtlpSettings;
use crate::core::snapshot::Snapshot;

pub(crate) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";
/// Default of `service.name`.
pub(crate) const SERVICE: &str = "azure-scheduled-events-exporter";
/// The conventions' namespace for instance ids that derive from a machine id.
const NAMESPACE: Uuid = uuid!("4d63009a-8d0f-11ee-aad7-4c796ed8e320");

/// Without the SDK's detectors, which read the environment.
pub(super) fn of(settings: &OtlpSettings, snapshot: &Snapshot) -> Resource {
    let attributes = attributes(settings, snapshot).into_iter();
    let attributes = attributes.map(|(name, value)| KeyValue::new(name, value));
    Resource::builder_empty()
        .with_schema_url(attributes, SCHEMA_URL)
        .build()
}

pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SERVICE)
        .with_version(env!("CARGO_PKG_VERSION"))
        .build()
}

/// By name. Unknown attributes are absent. The environment overrides instance metadata.
pub(super) fn attributes(settings: &OtlpSettings, snapshot: &Snapshot) -> BTreeMap<String, String> {
    let (identity, vm_name) = (snapshot.identity.as_deref(), snapshot.vm_name.as_deref());
    let mut resource = BTreeMap::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() {
            resource.insert(name.to_owned(), value.to_owned());
        }
    };
    put("service.name", SERVICE);
    put("service.version", env!("CARGO_PKG_VERSION"));
    put("cloud.provider", "azure");
    put("cloud.platform", "azure.vm");
    put("host.name", vm_name.unwrap_or_default());
    put("owner", snapshot.owner.as_deref().unwrap_or_default());
    // Without an instance id, receivers take the metrics of all VMs for those of one.
    let vm_id = identity.map_or("", |identity| &identity.vm_id);
    let machine = [vm_id, vm_name.unwrap_or_default()];
    if let Some(machine) = machine.into_iter().find(|machine| !machine.is_empty()) {
        let id = Uuid::new_v5(&NAMESPACE, machine.as_bytes());
        put("service.instance.id", &id.to_string());
    }
    if let Some(identity) = identity {
        put("cloud.region", &identity.location);
        put("cloud.availability_zone", &identity.zone);
        put("cloud.account.id", &identity.subscription_id);
        put("cloud.resource_id", &identity.resource_id);
        put("host.id", &identity.vm_id);
        put("host.type", &identity.vm_size);
        put("azure.resource_group.name", &identity.resource_group);
        put("azure.vm.scaleset.name", &identity.scale_set);
        put("host.name", &identity.name);
        put("host.name", &identity.computer_name);
    }
    for (name, value) in &settings.resource_attributes {
        put(name, value);
    }
    put(
        "service.name",
        settings.service_name.as_deref().unwrap_or_default(),
    );
    resource
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        azure::Identity,
        outputs::otlp::fixtures::{identity, moment, settings},
    };

    fn attributes(
        settings: &OtlpSettings,
        identity: Option<&Identity>,
        vm_name: Option<&str>,
    ) -> BTreeMap<String, String> {
        let snapshot = Snapshot {
            identity: identity.cloned().map(Into::into),
            owner: Some("shop".into()),
            ..Snapshot::empty(vm_name.map(Into::into), moment(0))
        };
        super::attributes(settings, &snapshot)
    }

    #[test]
    fn resource_follows_the_semantic_conventions() {
        let resource = attributes(&settings(&[]), Some(&identity()), Some("vmss_2"));
        let expected = [
            ("azure.resource_group.name", "mc_prod"),
            ("azure.vm.scaleset.name", "aks-pool1-41265337-vmss"),
            ("cloud.account.id", "5d9c1c62-51e5-4d4c-8a2f-0f8a2d9f5a10"),
            ("cloud.platform", "azure.vm"),
            ("cloud.provider", "azure"),
            ("cloud.region", "westeurope"),
            ("cloud.resource_id", "/subscriptions/x/vm"),
            ("host.id", "8f1e9b6a-32b7-4b0c-9d21-6a4b6f7c1e55"),
            ("host.name", "aks-pool1-41265337-vmss000002"),
            ("host.type", "Standard_D8s_v5"),
            ("owner", "shop"),
            (
                "service.instance.id",
                "c43a84a5-17f8-54f0-9be4-4c27c9202901",
            ),
            ("service.name", "azure-scheduled-events-exporter"),
            ("service.version", env!("CARGO_PKG_VERSION")),
        ];
        let snapshot = Snapshot {
            identity: Some(identity().into()),
            vm_name: Some("vmss_2".into()),
            owner: Some("shop".into()),
            ..Snapshot::empty(None, moment(0))
        };
        let built = of(&settings(&[]), &snapshot);
        assert_eq!(built.len(), resource.len());
        assert_eq!(built.schema_url(), Some(SCHEMA_URL));
        let shown: Vec<_> = resource
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn unknown_attributes_are_absent() {
        let resource = attributes(&settings(&[]), None, Some("web_0"));
        assert_eq!(resource.get("host.name").map(String::as_str), Some("web_0"));
        assert!(!resource.contains_key("host.id"));
        assert!(resource.values().all(|value| !value.is_empty()));
        let resource = attributes(&settings(&[]), None, None);
        assert!(!resource.contains_key("service.instance.id"));
        assert!(resource.values().all(|value| !value.is_empty()));
    }

    #[test]
    fn each_vm_has_an_instance_id_of_its_own_with_or_without_instance_metadata() {
        let id = |identity, vm_name| {
            let resource = attributes(&settings(&[]), identity, vm_name);
            resource.get("service.instance.id").cloned()
        };
        let identity = identity();
        let by_name = id(None, Some("web_0"));
        assert!(by_name.is_some() && by_name != id(None, Some("web_1")));
        let by_id = id(Some(&identity), Some("web_0"));
        assert_ne!(by_id, by_name);
        assert_eq!(by_id, id(Some(&identity), None));
    }

    #[test]
    fn environment_overrides_metadata_and_service_name_overrides_all() {
        let given = settings(&[
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=other,host.name=mine,owner=env,team=sre%20berlin",
            ),
            ("OTEL_SERVICE_NAME", "maintenance"),
        ]);
        let resource = attributes(&given, Some(&identity()), None);
        let get = |name: &str| resource.get(name).map(String::as_str);
        assert_eq!(get("service.name"), Some("maintenance"));
        assert_eq!(get("host.name"), Some("mine"));
        assert_eq!(get("team"), Some("sre berlin"));
        assert_eq!(get("owner"), Some("env"));
    }
}
