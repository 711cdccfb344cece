//! Of whom the spans speak: this program and the VM, in the words of OpenTelemetry's semantic conventions 1.44
//! (<https://opentelemetry.io/docs/specs/semconv/resource/>). Pure.
//!
//! `azure.vm.scaleset.name` is in no convention; it is what the collector's `resourcedetection` processor writes.

use std::collections::BTreeMap;

use super::settings::OtlpSettings;
use crate::snapshot::Identity;

/// The version of the conventions that the names are from.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";
/// `service.name` where nobody gives another.
pub const SERVICE: &str = "azure-scheduled-events-exporter";
/// The namespace that the conventions give for instance ids that derive from an id of the machine.
const NAMESPACE: [u8; 16] = [
    0x4d, 0x63, 0x00, 0x9a, 0x8d, 0x0f, 0x11, 0xee, 0xaa, 0xd7, 0x4c, 0x79, 0x6e, 0xd8, 0xe3, 0x20,
];

/// Attributes by name.
pub type Resource = BTreeMap<String, String>;

/// What is known; what is not known is absent. The environment wins over what instance metadata say.
pub fn of(settings: &OtlpSettings, identity: Option<&Identity>, vm_name: Option<&str>) -> Resource {
    let mut resource = Resource::new();
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
    if let Some(identity) = identity {
        put("service.instance.id", &instance_id(&identity.vm_id));
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

/// A UUID of version 5 (RFC 9562, section 5.5) of the VM's id; nothing without one.
fn instance_id(vm_id: &str) -> String {
    if vm_id.is_empty() {
        return String::new();
    }
    let mut context = ring::digest::Context::new(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY);
    context.update(&NAMESPACE);
    context.update(vm_id.as_bytes());
    let digest = context.finish();
    let Some(bytes) = digest.as_ref().first_chunk::<16>() else {
        return String::new();
    };
    let id = u128::from_be_bytes(*bytes);
    let version = (id & !(0xf << 76)) | (0x5 << 76);
    let uuid = (version & !(0x3 << 62)) | (0x2 << 62);
    let digits = format!("{uuid:032x}");
    let groups = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    let groups = groups.map(|(from, to)| digits.get(from..to).unwrap_or_default());
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(environment: &[(&str, &str)]) -> OtlpSettings {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        let all: BTreeMap<_, _> = environment.iter().copied().chain([endpoint]).collect();
        OtlpSettings::from_env(|name| all.get(name).map(|value| (*value).to_owned()))
            .unwrap()
            .unwrap()
    }

    fn identity() -> Identity {
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
        }
    }

    #[test]
    fn the_vm_is_told_in_the_words_of_the_conventions() {
        let resource = of(&settings(&[]), Some(&identity()), Some("vmss_2"));
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
            (
                "service.instance.id",
                "c43a84a5-17f8-54f0-9be4-4c27c9202901",
            ),
            ("service.name", "azure-scheduled-events-exporter"),
            ("service.version", env!("CARGO_PKG_VERSION")),
        ];
        let shown: Vec<_> = resource
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_not_known_is_absent() {
        let resource = of(&settings(&[]), None, Some("web_0"));
        assert_eq!(resource.get("host.name").map(String::as_str), Some("web_0"));
        assert!(!resource.contains_key("host.id") && !resource.contains_key("service.instance.id"));
        assert!(resource.values().all(|value| !value.is_empty()));
    }

    #[test]
    fn the_environment_wins_and_the_service_name_wins_over_all() {
        let given = settings(&[
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=other,host.name=mine,team=sre%20berlin",
            ),
            ("OTEL_SERVICE_NAME", "maintenance"),
        ]);
        let resource = of(&given, Some(&identity()), None);
        let get = |name: &str| resource.get(name).map(String::as_str);
        assert_eq!(get("service.name"), Some("maintenance"));
        assert_eq!(get("host.name"), Some("mine"));
        assert_eq!(get("team"), Some("sre berlin"));
    }
}
