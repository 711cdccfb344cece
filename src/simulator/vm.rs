//! The simulated VMs and their instance metadata.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::scenario::ResourceSpec;

/// Instance 0 of a scale set.
const DEFAULT_NAME: &str = "web-vmss_0";
const SUBSCRIPTION: &str = "5d1c9a70-2e43-4b8f-a6d1-0c7f3e92b814";
const RESOURCE_GROUP: &str = "shop-rg";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    pub(super) name: Box<str>,
    /// Scale set and instance number of an instance of a uniform scale set.
    instance: Option<(Box<str>, u32)>,
    flexible_set: Option<Box<str>>,
    os_type: OsType,
    pub(super) zone: Box<str>,
    pub(super) tags: Tags,
}

/// Names and values.
pub(super) type Tags = BTreeMap<Box<str>, Box<str>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OsType {
    Linux,
    Windows,
}

impl Vm {
    /// A VM in `scale_set`, which is flexible unless the name is that of an instance, `SCALESET_NUMBER`. With an empty
    /// `scale_set`, the VM is in none.
    pub fn new(name: Option<&str>, scale_set: Option<&str>, os_type: OsType) -> Self {
        let name = match (name, scale_set) {
            (Some(name), _) => name.to_owned(),
            (None, None | Some("")) => DEFAULT_NAME.to_owned(),
            (None, Some(scale_set)) => format!("{scale_set}_0"),
        };
        let instance = instance_of(&name)
            .filter(|(set, _)| scale_set.is_none_or(|scale_set| scale_set == &**set));
        let flexible_set = scale_set
            .filter(|set| instance.is_none() && !set.is_empty())
            .map(Into::into);
        Self {
            name: name.into(),
            instance,
            flexible_set,
            os_type,
            zone: "1".into(),
            tags: Tags::new(),
        }
    }

    /// Another VM of the scenarios: of the same flexible scale set, or of the uniform one that its name has.
    pub(super) fn neighbour(&self, name: &str) -> Self {
        Self {
            zone: self.zone.clone(),
            tags: self.tags.clone(),
            ..Self::new(Some(name), self.flexible_set.as_deref(), self.os_type)
        }
    }

    pub(super) fn resource(&self, resource: &ResourceSpec) -> Box<str> {
        match (resource, &self.instance) {
            (ResourceSpec::Name(name), _) => name.clone(),
            (ResourceSpec::Instance(0), _) => self.name.clone(),
            (ResourceSpec::Instance(offset), Some((scale_set, number))) => {
                format!("{scale_set}_{}", number.saturating_add(*offset)).into()
            }
            (ResourceSpec::Instance(offset), None) => format!("{}-{offset}", self.name).into(),
        }
    }

    /// The response to `/metadata/instance`, the same in every version: the members that clients of Scheduled Events
    /// read. All values but `tagsList` are strings. Source:
    /// <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#instance-metadata>.
    pub(super) fn instance_document(&self) -> Value {
        let name = &*self.name;
        let (scale_set, resource) = match (&self.instance, &self.flexible_set) {
            (Some((set, number)), _) => {
                let path = format!("virtualMachineScaleSets/{set}/virtualMachines/{number}");
                (&**set, path)
            }
            (None, set) => {
                let path = format!("virtualMachines/{name}");
                (set.as_deref().unwrap_or_default(), path)
            }
        };
        let group = format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}");
        let tags = self.tags.iter();
        let list: Vec<_> = tags
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        let tags: Vec<_> = self
            .tags
            .iter()
            .map(|(name, value)| format!("{name}:{value}"))
            .collect();
        json!({ "compute": {
            "azEnvironment": "AzurePublicCloud",
            "location": "westeurope",
            "name": name,
            "osProfile": { "computerName": self.computer_name() },
            "osType": format!("{:?}", self.os_type),
            "resourceGroupName": RESOURCE_GROUP,
            "resourceId": format!("{group}/providers/Microsoft.Compute/{resource}"),
            "subscriptionId": SUBSCRIPTION,
            "vmId": Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string(),
            "vmScaleSetName": scale_set,
            "vmSize": "Standard_D4s_v5",
            "tags": tags.join(";"),
            "tagsList": list,
            "zone": self.zone,
        }})
    }

    /// The host name; in a scale set it ends with the instance number in base 36, with six digits.
    fn computer_name(&self) -> String {
        let Some((scale_set, number)) = &self.instance else {
            return self.name.to_string();
        };
        let digit = |place: u32| char::from_digit(number / 36_u32.pow(place) % 36, 36);
        let digits: String = (0..6).rev().filter_map(digit).collect();
        format!("{scale_set}{digits}")
    }
}

/// Scale set and number of an instance of a uniform scale set, from its name.
fn instance_of(name: &str) -> Option<(Box<str>, u32)> {
    let (scale_set, number) = name.rsplit_once('_')?;
    let number = number.parse().ok()?;
    (!scale_set.is_empty()).then(|| (scale_set.into(), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_offsets_count_from_the_simulated_instance() {
        let vm = Vm::new(Some("aks-spot1-61920374-vmss_25"), None, OsType::Linux);
        let resource = |offset| vm.resource(&ResourceSpec::Instance(offset));
        assert_eq!(&*resource(0), "aks-spot1-61920374-vmss_25");
        assert_eq!(&*resource(2), "aks-spot1-61920374-vmss_27");
        let single = Vm::new(Some("db"), None, OsType::Linux);
        assert_eq!(&*single.resource(&ResourceSpec::Instance(1)), "db-1");
        assert_eq!(&*vm.resource(&ResourceSpec::Name("{x}".into())), "{x}");
    }

    #[test]
    fn scale_set_computer_name_and_operating_system_are_in_instance_metadata() {
        let pool = "aks-pool-12345678-vmss";
        let instance = format!("{pool}_862");
        for (name, scale_set, os_type, expected) in [
            (
                Some(&*instance),
                None,
                OsType::Linux,
                format!(
                    "{instance} {pool} {pool}0000ny Linux virtualMachineScaleSets/{pool}/virtualMachines/862"
                ),
            ),
            (
                None,
                Some("batch"),
                OsType::Windows,
                "batch_0 batch batch000000 Windows virtualMachineScaleSets/batch/virtualMachines/0"
                    .to_owned(),
            ),
            (
                Some("batch_1a2b"),
                Some("batch"),
                OsType::Linux,
                "batch_1a2b batch batch_1a2b Linux virtualMachines/batch_1a2b".to_owned(),
            ),
            (
                Some("db_1"),
                Some(""),
                OsType::Linux,
                "db_1  db_1 Linux virtualMachines/db_1".to_owned(),
            ),
        ] {
            let document = Vm::new(name, scale_set, os_type).instance_document();
            let compute = &document["compute"];
            let id = compute["resourceId"].as_str().unwrap();
            let found = [
                compute["name"].as_str().unwrap(),
                compute["vmScaleSetName"].as_str().unwrap(),
                compute["osProfile"]["computerName"].as_str().unwrap(),
                compute["osType"].as_str().unwrap(),
                id.split_once("/Microsoft.Compute/").unwrap().1,
            ];
            assert_eq!(found.join(" "), expected);
        }
    }

    #[test]
    fn neighbour_has_the_flexible_scale_set_of_the_vm_and_an_id_of_its_own() {
        let vm = Vm::new(Some("batch_1a2b"), Some("batch"), OsType::Linux);
        let one = vm.instance_document();
        let other = vm.neighbour("batch_3c4d").instance_document();
        assert_eq!(other["compute"]["vmScaleSetName"], "batch");
        assert_ne!(other["compute"]["vmId"], one["compute"]["vmId"]);
    }

    #[test]
    fn tags_and_zone_are_those_of_all_vms() {
        let mut vm = Vm::new(Some("batch_0"), None, OsType::Linux);
        let compute = |vm: &Vm| vm.instance_document()["compute"].clone();
        assert_eq!(compute(&vm)["tagsList"], json!([]));
        assert_eq!(
            (&compute(&vm)["tags"], &compute(&vm)["zone"]),
            (&json!(""), &json!("1"))
        );
        vm.tags = [("team", "shop"), ("env", "test")]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        vm.zone = "3".into();
        for vm in [&vm, &vm.neighbour("batch_1")] {
            let list = json!([{"name": "env", "value": "test"}, {"name": "team", "value": "shop"}]);
            assert_eq!(compute(vm)["tagsList"], list);
            assert_eq!(
                (&compute(vm)["tags"], &compute(vm)["zone"]),
                (&json!("env:test;team:shop"), &json!("3"))
            );
        }
    }
}
