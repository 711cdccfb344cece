//! Who this VM is, from `/metadata/instance/compute`.
//!
//! `name` is what `Resources` calls this VM; the host name is not, it differs in every scale set. All values are strings
//! there, and missing ones are empty:
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#instance-metadata>. Classic VMs have no
//! such part and answer 404 or 400; then events keep the scope `unknown` unless the name is given by hand.

use std::time::Duration;

use serde_json::Value;

use super::{client::Client, error::Error};
use crate::{snapshot::Identity, time::Clock};

/// How long the answer may take. Instance metadata are there at once; the events are more urgent.
pub const TIMEOUT: Duration = Duration::from_secs(3);

/// An ARM resource id has a few hundred characters; what is longer than this is none of Azure's.
const MAX_VALUE: usize = 2_048;

impl Client {
    /// Asks who this VM is.
    pub async fn identify(&mut self, clock: Clock) -> Result<Identity, Error> {
        let to = self.endpoint().compute.clone();
        let body = self.get(&to, TIMEOUT, clock).await?;
        parse(&body)
    }
}

/// Reads the answer. Without a name it is a failure: the name is what it is asked for.
fn parse(body: &[u8]) -> Result<Identity, Error> {
    let compute: Value = serde_json::from_slice(body)
        .map_err(|error| Error::no_json("instance metadata", &error.to_string(), body))?;
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
        return Err(Error::shape(
            "instance metadata",
            "they have no name of this VM",
            body,
        ));
    }
    Ok(identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::FailureReason;

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
    fn what_is_missing_or_no_string_is_empty() {
        let identity = parse(br#"{"name":"vm1","zone":null,"vmSize":4,"osProfile":"x"}"#).unwrap();
        let expected = Identity {
            name: "vm1".to_owned(),
            ..Identity::default()
        };
        assert_eq!(identity, expected);
    }

    #[test]
    fn an_answer_without_a_name_is_a_failure() {
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
            assert_eq!(parse(body).unwrap_err().reason(), reason, "{text}");
        }
    }
}
