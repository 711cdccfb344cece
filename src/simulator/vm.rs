//! The simulated VM and its instance metadata.
//!
//! The members and their first versions follow
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#instance-metadata>. All values are
//! strings.

use serde_json::{Map, Value, json};

use super::scenario::Resource;

/// Instance 0 of a scale set.
const DEFAULT_NAME: &str = "web-vmss_0";
const SUBSCRIPTION: &str = "5d1c9a70-2e43-4b8f-a6d1-0c7f3e92b814";
const RESOURCE_GROUP: &str = "shop-rg";
const LOCATION: &str = "westeurope";
const VM_ID: &str = "9e7a4c52-61d3-4f0b-8c2e-d5b1a0937f68";

/// `osType`, `publisher`, `offer`, `sku`, `version`, `disablePasswordAuthentication`.
const LINUX: [&str; 6] = [
    "Linux",
    "canonical",
    "ubuntu-24_04-lts",
    "server",
    "24.04.202610010",
    "true",
];
const WINDOWS: [&str; 6] = [
    "Windows",
    "MicrosoftWindowsServer",
    "WindowsServer",
    "2022-datacenter-azure-edition",
    "20348.4297.261003",
    "false",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    /// As in `Resources`.
    pub(super) name: Box<str>,
    /// Scale set and instance number of an instance of a uniform scale set.
    instance: Option<(Box<str>, u32)>,
    /// The name of the flexible scale set of a VM with a name of its own.
    flexible_set: Option<Box<str>>,
    os_type: OsType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OsType {
    Linux,
    Windows,
}

impl Vm {
    /// A Linux VM, in a uniform scale set if its name has that format.
    pub fn new(name: Option<&str>) -> Self {
        Self::configured(name, None, OsType::Linux)
    }

    /// A VM in `scale_set`, which is flexible unless the name is that of an instance, `SCALESET_NUMBER`. With an empty
    /// `scale_set`, the VM is in none.
    pub fn configured(name: Option<&str>, scale_set: Option<&str>, os_type: OsType) -> Self {
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
        }
    }

    /// Resolves a resource of a scenario to a name.
    pub(super) fn resource(&self, resource: &Resource) -> Box<str> {
        match (resource, &self.instance) {
            (Resource::Name(name), _) => name.clone(),
            (Resource::Instance(0), _) => self.name.clone(),
            (Resource::Instance(offset), Some((scale_set, number))) => {
                format!("{scale_set}_{}", number.saturating_add(*offset)).into()
            }
            (Resource::Instance(offset), None) => format!("{}-{offset}", self.name).into(),
        }
    }

    /// The response to `/metadata/instance` in one version. An instance of a classic role has no `compute`.
    pub(super) fn instance_document(&self, version: &str) -> Value {
        if is_role_instance(&self.name) {
            return json!({ "network": network() });
        }
        let members = self.compute().into_iter();
        let members = members.filter(|(since, ..)| *since <= version);
        let compute: Map<_, _> = members
            .map(|(_, member, value)| (member.to_owned(), value))
            .collect();
        json!({ "compute": compute, "network": network() })
    }

    /// The first version, name and value of each member.
    fn compute(&self) -> Vec<(&'static str, &'static str, Value)> {
        let name = &*self.name;
        let (scale_set, placement_group, resource) = match (&self.instance, &self.flexible_set) {
            (Some((set, number)), _) => {
                let path = format!("virtualMachineScaleSets/{set}/virtualMachines/{number}");
                (&**set, "3b0f6c1e-8a57-4d0c-9b63-1f5e7a2c4d90", path)
            }
            (None, set) => {
                let path = format!("virtualMachines/{name}");
                (set.as_deref().unwrap_or_default(), "", path)
            }
        };
        let flexible_set = match &self.flexible_set {
            Some(set) => compute_id(&format!("virtualMachineScaleSets/{set}")),
            None => String::new(),
        };
        let flexible_set = json!({ "id": flexible_set });
        let [os_type, publisher, offer, sku, version, has_no_password] = match self.os_type {
            OsType::Linux => LINUX,
            OsType::Windows => WINDOWS,
        };
        let tags =
            json!([{ "name": "env", "value": "simulated" }, { "name": "team", "value": "shop" }]);
        let os_profile = json!({
            "adminUsername": "azureuser",
            "computerName": self.computer_name(),
            "disablePasswordAuthentication": has_no_password,
        });
        vec![
            ("2018-10-01", "azEnvironment", "AzurePublicCloud".into()),
            ("2020-12-01", "evictionPolicy", "".into()),
            ("2020-06-01", "isHostCompatibilityLayerVm", "false".into()),
            ("2017-04-02", "location", LOCATION.into()),
            ("2017-04-02", "name", name.into()),
            ("2017-04-02", "offer", offer.into()),
            ("2020-07-15", "osProfile", os_profile),
            ("2017-04-02", "osType", os_type.into()),
            ("2017-08-01", "placementGroupId", placement_group.into()),
            ("2017-04-02", "platformFaultDomain", "0".into()),
            ("2017-04-02", "platformUpdateDomain", "0".into()),
            ("2020-12-01", "priority", "Regular".into()),
            ("2018-10-01", "provider", "Microsoft.Compute".into()),
            ("2017-04-02", "publisher", publisher.into()),
            ("2017-08-01", "resourceGroupName", RESOURCE_GROUP.into()),
            ("2019-03-11", "resourceId", compute_id(&resource).into()),
            ("2017-04-02", "sku", sku.into()),
            ("2017-08-01", "subscriptionId", SUBSCRIPTION.into()),
            ("2017-08-01", "tags", "env:simulated;team:shop".into()),
            ("2019-06-04", "tagsList", tags),
            ("2017-04-02", "version", version.into()),
            ("2021-03-01", "virtualMachineScaleSet", flexible_set),
            ("2017-04-02", "vmId", VM_ID.into()),
            ("2017-12-01", "vmScaleSetName", scale_set.into()),
            ("2017-04-02", "vmSize", "Standard_D4s_v5".into()),
            ("2017-12-01", "zone", "1".into()),
        ]
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

/// Whether the name is that of an instance of a classic cloud service, such as `FrontEnd_IN_0`.
pub(super) fn is_role_instance(name: &str) -> bool {
    instance_of(name).is_some_and(|(role, _)| role.len() > 3 && role.ends_with("_IN"))
}

fn compute_id(path: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute/{path}"
    )
}

fn network() -> Value {
    json!({ "interface": [{
        "ipv4": {
            "ipAddress": [{ "privateIpAddress": "10.0.0.4", "publicIpAddress": "" }],
            "subnet": [{ "address": "10.0.0.0", "prefix": "24" }],
        },
        "ipv6": { "ipAddress": [] },
        "macAddress": "000D3A1B2C3D",
    }] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_offsets_count_from_the_simulated_instance() {
        let vm = Vm::new(Some("aks-spot1-61920374-vmss_25"));
        assert_eq!(
            &*vm.resource(&Resource::Instance(0)),
            "aks-spot1-61920374-vmss_25"
        );
        assert_eq!(
            &*vm.resource(&Resource::Instance(2)),
            "aks-spot1-61920374-vmss_27"
        );
        assert_eq!(
            &*Vm::new(Some("db")).resource(&Resource::Instance(1)),
            "db-1"
        );
        assert_eq!(&*vm.resource(&Resource::Name("{x}".into())), "{x}");
    }

    #[test]
    fn host_name_of_a_scale_set_instance_is_in_base_36() {
        assert_eq!(
            Vm::new(Some("aks-pool-12345678-vmss_862")).computer_name(),
            "aks-pool-12345678-vmss0000ny"
        );
        assert_eq!(Vm::new(Some("billing-vm1")).computer_name(), "billing-vm1");
    }

    #[test]
    fn vm_outside_a_scale_set_has_an_empty_scale_set_name() {
        let document = Vm::new(Some("billing-vm1")).instance_document("2021-02-01");
        assert_eq!(document["compute"]["vmScaleSetName"], "");
        assert_eq!(document["compute"]["name"], "billing-vm1");
    }

    #[test]
    fn scale_set_and_operating_system_are_in_instance_metadata() {
        let compute = |name, scale_set, os_type| {
            let vm = Vm::configured(name, scale_set, os_type);
            vm.instance_document("2021-03-01")["compute"].clone()
        };
        let uniform = compute(None, Some("batch"), OsType::Windows);
        assert_eq!(uniform["name"], "batch_0");
        assert_eq!(uniform["vmScaleSetName"], "batch");
        assert_eq!(uniform["osType"], "Windows");
        assert_eq!(uniform["virtualMachineScaleSet"]["id"], "");
        let flexible = compute(Some("batch_1a2b3c4d"), Some("batch"), OsType::Linux);
        assert_eq!(flexible["vmScaleSetName"], "batch");
        let id = |member: &Value| member.as_str().unwrap().to_owned();
        assert!(
            id(&flexible["virtualMachineScaleSet"]["id"])
                .ends_with("/virtualMachineScaleSets/batch")
        );
        assert!(id(&flexible["resourceId"]).ends_with("/virtualMachines/batch_1a2b3c4d"));
        let none = compute(Some("db_1"), Some(""), OsType::Linux);
        assert_eq!(
            (&none["vmScaleSetName"], &none["osType"]),
            (&"".into(), &"Linux".into())
        );
    }

    #[test]
    fn instance_of_a_classic_role_has_no_compute() {
        let document = Vm::new(Some("FrontEnd_IN_0")).instance_document("2021-02-01");
        assert!(document.get("compute").is_none());
        assert!(is_role_instance("a_IN_12"));
        assert!(!is_role_instance("_IN_0") && !is_role_instance("web_0"));
        assert!(!is_role_instance("a_IN_") && !is_role_instance("a_IN_x"));
    }

    #[test]
    fn members_exist_from_their_first_version_on() {
        let vm = Vm::new(None);
        let has = |version: &str, member: &str| {
            vm.instance_document(version)["compute"]
                .get(member)
                .is_some()
        };
        assert!(has("2017-04-02", "name") && !has("2017-04-02", "vmScaleSetName"));
        assert!(has("2017-12-01", "vmScaleSetName") && !has("2019-03-01", "resourceId"));
        assert!(
            !has("2021-02-01", "virtualMachineScaleSet")
                && has("2021-03-01", "virtualMachineScaleSet")
        );
    }
}
