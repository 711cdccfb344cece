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
        parse(&self.request_compute(TIMEOUT, clock).await?)
    }
}

/// A response without a name is an error.
fn parse(body: &[u8]) -> Result<Identity, RequestError> {
    let compute: Value = serde_json::from_slice(body)
        .map_err(|error| error::json("instance metadata", &error.to_string(), body))?;
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).unwrap_or_default();
        if text.len() <= MAX_VALUE {
            text.to_owned()
        } else {
            String::new()
        }
    };
    let member = |name: &str| text(compute.get(name));
    let identity = Identity {
        name: member("name"),
        vm_id: member("vmId"),
        scale_set: member("vmScaleSetName"),
        vm_size: member("vmSize"),
        location: member("location"),
        zone: member("zone"),
        subscription_id: member("subscriptionId"),
        resource_group: member("resourceGroupName"),
        resource_id: member("resourceId"),
        computer_name: text(compute.pointer("/osProfile/computerName")),
    };
    if identity.name.trim().is_empty() {
        let begin = error::excerpt(&String::from_utf8_lossy(body));
        let detail =
            format!("expected instance metadata; they lack the name of this VM; it begins {begin}");
        return Err(error::shape(&detail, body));
    }
    Ok(identity)
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
        };
        assert_eq!(identity, expected);
    }

    #[test]
    fn missing_members_and_other_types_are_empty() {
        let identity = parse(br#"{"name":"vm1","zone":null,"vmSize":4,"osProfile":"x"}"#).unwrap();
        let expected = Identity {
            name: "vm1".to_owned(),
            ..Identity::default()
        };
        assert_eq!(identity, expected);
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
