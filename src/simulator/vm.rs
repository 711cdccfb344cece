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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    name: Box<str>,
    /// Scale set and instance number, if the name has the format of a uniform scale set.
    instance: Option<(Box<str>, u32)>,
}

impl Vm {
    pub fn new(name: Option<&str>) -> Self {
        let name = name.unwrap_or(DEFAULT_NAME);
        let instance = name.rsplit_once('_').and_then(|(scale_set, number)| {
            let number = number.parse().ok()?;
            (!scale_set.is_empty()).then(|| (scale_set.into(), number))
        });
        Self {
            name: name.into(),
            instance,
        }
    }

    /// The name in `Resources`.
    pub(super) fn name(&self) -> &str {
        &self.name
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

    /// The response to `/metadata/instance` in one version.
    pub(super) fn instance_document(&self, version: &str) -> Value {
        let members: Map<String, Value> = self
            .compute()
            .into_iter()
            .filter(|(since, _, _)| *since <= version)
            .map(|(_, member, value)| (member.to_owned(), value))
            .collect();
        json!({ "compute": members, "network": network() })
    }

    /// The first version, name and value of each member.
    fn compute(&self) -> Vec<(&'static str, &'static str, Value)> {
        let scale_set = self
            .instance
            .as_ref()
            .map_or("", |(scale_set, _)| scale_set);
        let placement_group = if scale_set.is_empty() {
            ""
        } else {
            "3b0f6c1e-8a57-4d0c-9b63-1f5e7a2c4d90"
        };
        let tags =
            json!([{ "name": "env", "value": "simulated" }, { "name": "team", "value": "shop" }]);
        let os_profile = json!({
            "adminUsername": "azureuser",
            "computerName": self.computer_name(),
            "disablePasswordAuthentication": "true",
        });
        vec![
            ("2018-10-01", "azEnvironment", "AzurePublicCloud".into()),
            ("2020-12-01", "evictionPolicy", "".into()),
            ("2020-06-01", "isHostCompatibilityLayerVm", "false".into()),
            ("2017-04-02", "location", LOCATION.into()),
            ("2017-04-02", "name", self.name().into()),
            ("2017-04-02", "offer", "ubuntu-24_04-lts".into()),
            ("2020-07-15", "osProfile", os_profile),
            ("2017-04-02", "osType", "Linux".into()),
            ("2017-08-01", "placementGroupId", placement_group.into()),
            ("2017-04-02", "platformFaultDomain", "0".into()),
            ("2017-04-02", "platformUpdateDomain", "0".into()),
            ("2020-12-01", "priority", "Regular".into()),
            ("2018-10-01", "provider", "Microsoft.Compute".into()),
            ("2017-04-02", "publisher", "canonical".into()),
            ("2017-08-01", "resourceGroupName", RESOURCE_GROUP.into()),
            ("2019-03-11", "resourceId", self.resource_id().into()),
            ("2017-04-02", "sku", "server".into()),
            ("2017-08-01", "subscriptionId", SUBSCRIPTION.into()),
            ("2017-08-01", "tags", "env:simulated;team:shop".into()),
            ("2019-06-04", "tagsList", tags),
            ("2017-04-02", "version", "24.04.202610010".into()),
            ("2021-03-01", "virtualMachineScaleSet", json!({ "id": "" })),
            (
                "2017-04-02",
                "vmId",
                "9e7a4c52-61d3-4f0b-8c2e-d5b1a0937f68".into(),
            ),
            ("2017-12-01", "vmScaleSetName", scale_set.into()),
            ("2017-04-02", "vmSize", "Standard_D4s_v5".into()),
            ("2017-12-01", "zone", "1".into()),
        ]
    }

    fn resource_id(&self) -> String {
        let group = format!(
            "/subscriptions/{SUBSCRIPTION}/resourceGroups/{RESOURCE_GROUP}/providers/Microsoft.Compute"
        );
        match &self.instance {
            Some((scale_set, number)) => {
                format!("{group}/virtualMachineScaleSets/{scale_set}/virtualMachines/{number}")
            }
            None => format!("{group}/virtualMachines/{}", self.name),
        }
    }

    /// The host name; in a scale set it ends with the instance number in base 36, with six digits.
    fn computer_name(&self) -> String {
        let Some((scale_set, number)) = &self.instance else {
            return self.name.to_string();
        };
        let mut digits = Vec::new();
        let mut rest = *number;
        for _ in 0..6 {
            digits.push(char::from_digit(rest % 36, 36).unwrap_or('0'));
            rest /= 36;
        }
        let digits: String = digits.into_iter().rev().collect();
        format!("{scale_set}{digits}")
    }
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
