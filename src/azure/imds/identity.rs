//! The identity of this VM, from `/metadata/instance/compute`.
//!
//! `name` is the VM's entry in `Resources`; the host name differs from it in scale sets. All values are strings, and
//! missing ones are empty:
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#instance-metadata>. In a classic cloud
//! service the response is 404 or 400; events then keep the scope `unknown` unless `--vm.name` is set.

use std::time::Duration;

use serde_json::Value;

use super::{client::Client, error};
use crate::{
    azure::{Identity, RequestError},
    base::time::Clock,
};

/// Short, since polling waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes; an ARM resource id has a few hundred.
const MAX_VALUE: usize = 2_048;

impl Client {
    /// Requests the identity of this VM.
    pub async fn identify(&mut self, clock: Clock) -> Result<Identity, RequestError> {
        let identity = parse(&self.request_compute(TIMEOUT, clock).await?)?;
        self.has_read_metadata = true;
        Ok(identity)
    }
}

/// A response without a name is an error.
fn parse(body: &[u8]) -> Result<Identity, RequestError> {
    let compute: Value = serde_json::from_slice(body)
        .map_err(|error| error::json("instance metadata", &error.to_string(), body))?;
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).unwrap_or_default().trim();
        if text.len() <= MAX_VALUE {
            text.to_owned()
        } else {
            String::new()
        }
    };
    let member = |name: &str| text(compute.get(name));
    let computer_name = compute.pointer("/osProfile/computerName");
    let mut identity = Identity {
        name: member("name"),
        vm_id: member("vmId"),
        scale_set: member("vmScaleSetName"),
        vm_size: member("vmSize"),
        location: member("location"),
        zone: member("zone"),
        subscription_id: member("subscriptionId"),
        resource_group: member("resourceGroupName"),
        resource_id: member("resourceId"),
        computer_name: text(computer_name),
        is_partial: false,
    };
    // Members that a kind of VM does not have are present, and empty.
    let optional = [
        compute.get("vmScaleSetName"),
        compute.get("zone"),
        computer_name,
    ];
    identity.is_partial =
        lacks_value(&identity) || !optional.iter().all(|it| it.is_some_and(Value::is_string));
    if identity.name.is_empty() {
        let begin = error::excerpt(&String::from_utf8_lossy(body));
        let detail =
            format!("expected instance metadata; they lack the name of this VM; it begins {begin}");
        return Err(error::shape(&detail, body));
    }
    Ok(identity)
}

/// Whether a value is empty that every VM has, or every VM of a scale set.
fn lacks_value(identity: &Identity) -> bool {
    let resource_id = identity.resource_id.to_ascii_lowercase();
    let is_in_scale_set = resource_id.contains("/virtualmachinescalesets/");
    let of_all = [
        &identity.vm_id,
        &identity.vm_size,
        &identity.location,
        &identity.subscription_id,
        &identity.resource_group,
        &identity.resource_id,
    ];
    let of_scale_sets = [&identity.scale_set, &identity.computer_name];
    of_all.into_iter().any(String::is_empty)
        || is_in_scale_set && of_scale_sets.into_iter().any(String::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::azure::FailureReason;

    #[test]
    fn the_documented_members_are_read() {
        let identity = parse(
            br#"{"location":"westeurope","name":"aks-nodepool1-40718255-vmss_3","osProfile":{"adminUsername":"azureuser",
            "computerName":"aks-nodepool1-40718255-vmss000003"},"resourceGroupName":"MC_shop","resourceId":"/subscriptions/5d1c",
            "subscriptionId":"5d1c","tags":"","vmId":"9e7a","vmScaleSetName":"aks-nodepool1-40718255-vmss",
            "vmSize":"Standard_D4s_v5","zone":"1"}"#,
        )
        .unwrap();
        let expected = Identity {
            name: "aks-nodepool1-40718255-vmss_3".to_owned(),
            vm_id: "9e7a".to_owned(),
            scale_set: "aks-nodepool1-40718255-vmss".to_owned(),
            vm_size: "Standard_D4s_v5".to_owned(),
            location: "westeurope".to_owned(),
            zone: "1".to_owned(),
            subscription_id: "5d1c".to_owned(),
            resource_group: "MC_shop".to_owned(),
            resource_id: "/subscriptions/5d1c".to_owned(),
            computer_name: "aks-nodepool1-40718255-vmss000003".to_owned(),
            is_partial: false,
        };
        assert_eq!(identity, expected);
    }

    #[test]
    fn missing_members_and_other_types_are_empty() {
        let identity = parse(br#"{"name":"vm1","zone":null,"vmSize":4,"osProfile":"x"}"#).unwrap();
        let expected = Identity {
            name: "vm1".to_owned(),
            is_partial: true,
            ..Identity::default()
        };
        assert_eq!(identity, expected);
    }

    #[test]
    fn blanks_and_line_breaks_around_a_value_are_removed() {
        let identity = parse(br#"{"name":" web_0\r\n","location":"\twesteurope "}"#).unwrap();
        assert_eq!(
            (&*identity.name, &*identity.location),
            ("web_0", "westeurope")
        );
    }

    #[test]
    fn metadata_are_partial_while_a_member_is_missing_that_this_kind_of_vm_has() {
        let is_partial = |member: &str, value: Option<&str>, resource: &str| {
            let mut compute = serde_json::json!({
                "name": "web_0", "vmId": "9e7a", "vmSize": "D4", "location": "westeurope", "zone": "",
                "subscriptionId": "5d1c", "resourceGroupName": "shop", "vmScaleSetName": "web",
                "resourceId": format!("/subscriptions/5d1c/{resource}/web/virtualMachines/0"),
                "osProfile": {"computerName": "web000000"},
            });
            let (part, member) = match member {
                "computerName" => (&mut compute["osProfile"], member),
                _ => (&mut compute, member),
            };
            match value {
                Some(value) => part[member] = value.into(),
                None => drop(part.as_object_mut().unwrap().remove(member)),
            }
            parse(compute.to_string().as_bytes()).unwrap().is_partial
        };
        let (set, single) = ("virtualMachineScaleSets", "x");
        for member in [
            "vmId",
            "vmSize",
            "location",
            "subscriptionId",
            "resourceGroupName",
            "resourceId",
        ] {
            assert!(is_partial(member, None, single), "{member}");
            assert!(is_partial(member, Some(" "), single), "{member}");
        }
        for member in ["vmScaleSetName", "computerName"] {
            assert!(is_partial(member, None, single), "{member}");
            assert!(is_partial(member, Some(""), set), "{member}");
            assert!(!is_partial(member, Some(""), single), "{member}");
        }
        assert!(is_partial("zone", None, single));
        assert!(!is_partial("zone", Some(""), set));
    }

    #[test]
    fn a_response_without_a_name_is_an_error() {
        for (body, reason) in [
            (&b"{}"[..], FailureReason::Shape),
            (br#"{"name":""}"#, FailureReason::Shape),
            (br#"{"name":7}"#, FailureReason::Shape),
            (b"[]", FailureReason::Shape),
            (b"null", FailureReason::Shape),
            (b"", FailureReason::Json),
            (b"<html>", FailureReason::Json),
        ] {
            let text = String::from_utf8_lossy(body);
            assert_eq!(parse(body).unwrap_err().reason, reason, "{text}");
        }
    }
}
