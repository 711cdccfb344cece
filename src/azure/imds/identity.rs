//! The identity of this VM:
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service#instance-metadata>. In a classic cloud
//! service the response is 404 or 400; events then keep the scope `unknown` unless `--vm.name` is set.

use std::time::Duration;

use serde_json::Value;

use super::{
    Client,
    poll_timing::{FIRST_BACKOFF, MAX_BACKOFF, next_delay},
    request_error::{self, RequestError},
};
use crate::{
    azure::{document::ParseError, event::is_same_vm},
    base::{backoff::exponential, text::label_value, time::MonotonicTime},
};

/// At most, since polling waits for it.
const MAX_TIMEOUT: Duration = Duration::from_secs(3);

/// After a failure that is none of polling, doubled with each further one.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
const MAX_RETRY_INTERVAL: Duration = Duration::from_mins(5);
const REFRESH_INTERVAL: Duration = Duration::from_hours(1);
/// The default while a member that this kind of VM has is missing.
pub(crate) const PARTIAL_INTERVAL: Duration = Duration::from_secs(30);

/// Bytes; an ARM resource id has a few hundred.
const MAX_VALUE: usize = 2_048;

/// Where a value is below `compute`, and in [`Identity`].
type Member = (&'static str, fn(&mut Identity) -> &mut String);

/// First those that every VM has, then those of scale sets.
const MEMBERS: [Member; 10] = [
    ("/name", |it| &mut it.name),
    ("/vmId", |it| &mut it.vm_id),
    ("/vmSize", |it| &mut it.vm_size),
    ("/location", |it| &mut it.location),
    ("/subscriptionId", |it| &mut it.subscription_id),
    ("/resourceGroupName", |it| &mut it.resource_group),
    ("/resourceId", |it| &mut it.resource_id),
    ("/vmScaleSetName", |it| &mut it.scale_set),
    ("/osProfile/computerName", |it| &mut it.computer_name),
    ("/zone", |it| &mut it.zone),
];
const OF_ALL_VMS: usize = 7;
const OF_SCALE_SETS: usize = 2;

/// The identity of this VM, from `/metadata/instance/compute`. A missing value is an empty string, as it is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// `name`: this VM in `Resources`.
    pub name: String,
    pub vm_id: String,
    pub scale_set: String,
    pub vm_size: String,
    pub location: String,
    pub zone: String,
    pub subscription_id: String,
    pub resource_group: String,
    pub resource_id: String,
    pub computer_name: String,
    /// The value of the tag of `--vm.owner-tag` as a label value, empty if this VM has no such tag. `None` if it was not
    /// asked for, or not answered.
    pub owner: Option<String>,
    /// A member that this kind of VM has is missing.
    pub is_partial: bool,
}

impl Identity {
    /// The values of a later answer. Where it is partial, the present values of the same VM fill the gaps.
    pub(crate) fn updated(&self, mut later: Self) -> Self {
        let is_same_vm = later.vm_id.is_empty() || later.vm_id.eq_ignore_ascii_case(&self.vm_id);
        if !later.is_partial || !is_same_vm {
            return later;
        }
        let mut known = self.clone();
        later.owner = later.owner.or_else(|| known.owner.take());
        for (_, member) in &MEMBERS {
            let value = member(&mut later);
            if value.is_empty() {
                *value = std::mem::take(member(&mut known));
            }
        }
        later
    }

    /// The name of the host, where it is another one than that of the VM, as in scale sets.
    pub(crate) fn host(&self) -> Option<&str> {
        let host = self.computer_name.as_str();
        (!host.is_empty() && !host.eq_ignore_ascii_case(&self.name)).then_some(host)
    }

    /// Whether `--vm.name` is another name than that in instance metadata.
    pub(crate) fn contradicts(&self, vm_name: Option<&str>) -> bool {
        vm_name.is_some_and(|vm_name| !is_same_vm(vm_name, &self.name))
    }
}

impl Client {
    pub async fn identify(&mut self, timeout: Duration) -> Result<Identity, RequestError> {
        let body = self.request_compute(timeout.min(MAX_TIMEOUT)).await?;
        let identity = parse(&body, self.owner_tag.as_deref())
            .map_err(|error| request_error::parse(&error, "instance metadata", &body))?;
        self.has_read_metadata = true;
        Ok(identity)
    }
}

/// A response without a name is an error.
fn parse(body: &[u8], owner_tag: Option<&str>) -> Result<Identity, ParseError> {
    let compute: Value =
        serde_json::from_slice(body).map_err(|error| ParseError::Json(error.to_string()))?;
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).unwrap_or_default().trim();
        if text.len() <= MAX_VALUE {
            text.to_owned()
        } else {
            String::new()
        }
    };
    let mut identity = Identity::default();
    for (pointer, member) in &MEMBERS {
        *member(&mut identity) = text(compute.pointer(pointer));
    }
    identity.owner = owner_tag.and_then(|tag| owner(&compute, tag));
    let resource_id = identity.resource_id.to_ascii_lowercase();
    let required = if resource_id.contains("/virtualmachinescalesets/") {
        OF_ALL_VMS + OF_SCALE_SETS
    } else {
        OF_ALL_VMS
    };
    let mut required = MEMBERS.iter().take(required);
    // Members that a kind of VM does not have are present, and empty.
    let mut present = MEMBERS.iter().skip(OF_ALL_VMS);
    let is_string = |pointer| compute.pointer(pointer).is_some_and(Value::is_string);
    identity.is_partial = owner_tag.is_some() && identity.owner.is_none()
        || required.any(|(_, member)| member(&mut identity).is_empty())
        || !present.all(|(pointer, _)| is_string(pointer));
    if identity.name.is_empty() {
        let begin = request_error::excerpt(&String::from_utf8_lossy(body));
        return Err(ParseError::Shape(format!(
            "expected instance metadata; they lack the name of this VM; it begins {begin}"
        )));
    }
    Ok(identity)
}

/// Azure compares the names of tags without case:
/// <https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources#limitations>.
fn owner(compute: &Value, tag: &str) -> Option<String> {
    let mut tags = compute.pointer("/tagsList")?.as_array()?.iter();
    let is_owner = |it: &&Value| {
        let name = it["name"].as_str();
        name.is_some_and(|name| name.to_lowercase() == tag.to_lowercase())
    };
    let owner = match tags.find(is_owner) {
        Some(found) => found["value"].as_str()?,
        None => "",
    };
    Some(label_value(owner).into_owned())
}

/// Decides when instance metadata are requested. Pure.
#[derive(Debug)]
pub(crate) struct IdentitySchedule {
    /// Until the next request while a member that this kind of VM has is missing.
    partial_interval: Duration,
    /// The name of this VM is known, from `--vm.name` or from instance metadata, which then only add labels.
    is_name_known: bool,
    due: MonotonicTime,
    /// Consecutive failures, counted apart while the metadata are unavailable.
    failures: u32,
    was_unavailable: bool,
}

impl IdentitySchedule {
    pub(crate) fn new(partial_interval: Duration, is_name_known: bool) -> Self {
        Self {
            partial_interval,
            is_name_known,
            due: MonotonicTime::default(),
            failures: 0,
            was_unavailable: false,
        }
    }

    pub(crate) fn is_due(&self, now: MonotonicTime) -> bool {
        now >= self.due
    }

    /// A request ended at `now`. A transient failure is retried as a poll is; `jitter` is that of [`next_delay`].
    pub(crate) fn record(
        &mut self,
        result: &Result<Identity, RequestError>,
        jitter: f64,
        now: MonotonicTime,
    ) {
        let delay = match result {
            Ok(identity) => {
                self.failures = 0;
                self.is_name_known = true;
                if identity.is_partial {
                    self.partial_interval
                } else {
                    REFRESH_INTERVAL
                }
            }
            Err(error) => {
                let is_unavailable = error.is_identity_unavailable(self.is_name_known);
                if self.was_unavailable != is_unavailable {
                    self.failures = 0;
                }
                self.was_unavailable = is_unavailable;
                self.failures = self.failures.saturating_add(1);
                if is_unavailable {
                    let retry_after = error.retry_after.unwrap_or_default().min(MAX_BACKOFF);
                    let delay = exponential(RETRY_INTERVAL, MAX_RETRY_INTERVAL, self.failures);
                    retry_after.max(delay)
                } else {
                    let failed = Some((error, self.failures));
                    next_delay(failed, Duration::ZERO, FIRST_BACKOFF, jitter)
                }
            }
        };
        self.due = now + delay;
    }
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
            None,
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
            owner: None,
            is_partial: false,
        };
        assert_eq!(identity, expected);
    }

    #[test]
    fn missing_members_and_other_types_are_empty() {
        let identity = parse(
            br#"{"name":"vm1","zone":null,"vmSize":4,"osProfile":"x"}"#,
            None,
        )
        .unwrap();
        let expected = Identity {
            name: "vm1".to_owned(),
            is_partial: true,
            ..Identity::default()
        };
        assert_eq!(identity, expected);
    }

    #[test]
    fn blanks_and_line_breaks_around_a_value_are_removed() {
        let identity = parse(br#"{"name":" web_0\r\n","location":"\twesteurope "}"#, None).unwrap();
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
            parse(compute.to_string().as_bytes(), None)
                .unwrap()
                .is_partial
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
    fn owner_is_the_value_of_the_tag_whatever_its_case_and_characters() {
        let long = "x".repeat(300);
        for (tags, expected) in [
            (
                serde_json::json!([{"name": "env", "value": "a"}, {"name": "TEAM É", "value": " shop; \"1\" "}]),
                Some(" shop; \"1\" "),
            ),
            (
                serde_json::json!([{"name": "team é", "value": long}]),
                long.get(..256),
            ),
            (
                serde_json::json!([{"name": "team é", "value": "a\nb"}, {"name": "Team É", "value": "c"}]),
                Some("a b"),
            ),
            (
                serde_json::json!([{"name": "team", "value": "a"}, {"value": "b"}, 7, {"name": "Team É", "value": null}]),
                None,
            ),
            (serde_json::json!([]), Some("")),
            (serde_json::json!("team é:shop"), None),
            (Value::Null, None),
        ] {
            let body = serde_json::json!({"name": "vm1", "tagsList": tags}).to_string();
            let identity = parse(body.as_bytes(), Some("Team é")).unwrap();
            assert_eq!(identity.owner.as_deref(), expected, "{tags}");
            assert_eq!(parse(body.as_bytes(), None).unwrap().owner, None);
        }
    }

    #[test]
    fn an_answer_without_tags_is_partial_and_keeps_the_owner() {
        let compute = |tags: Value| {
            let mut compute = serde_json::json!({
                "name": "web_0", "vmId": "9e7a", "vmSize": "D4", "location": "westeurope", "zone": "",
                "subscriptionId": "5d1c", "resourceGroupName": "shop", "resourceId": "x",
                "vmScaleSetName": "", "osProfile": {"computerName": "web0"},
            });
            compute["tagsList"] = tags;
            compute.to_string()
        };
        let read = |tags| parse(compute(tags).as_bytes(), Some("team")).unwrap();
        let known = read(serde_json::json!([{"name": "team", "value": "shop"}]));
        assert!(!known.is_partial);
        let later = read(Value::Null);
        assert!(later.is_partial);
        assert!(
            !parse(compute(Value::Null).as_bytes(), None)
                .unwrap()
                .is_partial
        );
        assert_eq!(known.updated(later).owner.as_deref(), Some("shop"));
        assert_eq!(
            known.updated(read(serde_json::json!([]))).owner.as_deref(),
            Some("")
        );
    }

    #[test]
    fn a_response_without_a_name_is_an_error() {
        for body in ["{}", r#"{"name":""}"#, r#"{"name":7}"#, "[]", "null"] {
            let error = parse(body.as_bytes(), None).unwrap_err();
            assert!(matches!(error, ParseError::Shape(_)), "{body}: {error}");
        }
        for body in ["", "<html>"] {
            let error = parse(body.as_bytes(), None).unwrap_err();
            assert!(matches!(error, ParseError::Json(_)), "{body}: {error}");
        }
    }

    /// The delays in seconds after these results of consecutive requests for the identity.
    fn identity_delays(
        is_name_known: bool,
        results: impl IntoIterator<Item = Result<Identity, RequestError>>,
    ) -> Vec<u64> {
        let mut schedule = IdentitySchedule::new(PARTIAL_INTERVAL, is_name_known);
        let now = MonotonicTime::since_origin(Duration::from_secs(1));
        assert!(schedule.is_due(now));
        let delay = |result| {
            schedule.record(&result, 1.0, now);
            (schedule.due - now).as_secs()
        };
        results.into_iter().map(delay).collect()
    }

    fn refused(status: u16, retry_after: u64) -> Result<Identity, RequestError> {
        let reason = match status {
            429 => FailureReason::Throttled,
            500.. => FailureReason::Status5xx,
            _ => FailureReason::Status4xx,
        };
        Err(RequestError {
            status: Some(status),
            retry_after: Some(Duration::from_secs(retry_after)).filter(|after| !after.is_zero()),
            ..RequestError::new(reason, "")
        })
    }

    #[test]
    fn a_transient_failure_of_the_identity_is_retried_as_a_poll_is() {
        for status in [403, 405, 500, 503] {
            let failures = (0..6).map(|_| refused(status, 0));
            assert_eq!(
                identity_delays(false, failures),
                [1, 2, 4, 8, 15, 15],
                "{status}"
            );
        }
        let throttled = [0, 1, 12, 86_400].map(|retry_after| refused(429, retry_after));
        assert_eq!(identity_delays(false, throttled), [2, 1, 12, 15]);
    }

    #[test]
    fn unavailable_identity_backs_off_to_five_minutes() {
        for (status, is_name_known) in [(400, false), (404, false), (503, true), (404, true)] {
            let failures = (0..8).map(|_| refused(status, 0));
            let expected = [5, 10, 20, 40, 80, 160, 300, 300];
            assert_eq!(
                identity_delays(is_name_known, failures),
                expected,
                "{status}"
            );
        }
        let mixed = [
            refused(503, 0),
            refused(503, 0),
            refused(404, 0),
            refused(503, 0),
        ];
        assert_eq!(identity_delays(false, mixed), [1, 2, 5, 1]);
    }

    #[test]
    fn a_known_identity_is_requested_again_each_hour_and_a_partial_one_after_30_seconds() {
        let known = |is_partial| {
            Ok(Identity {
                is_partial,
                ..Identity::default()
            })
        };
        let results = [known(true), refused(503, 0), known(true), known(false)];
        assert_eq!(identity_delays(false, results), [30, 5, 30, 3_600]);
    }
}
