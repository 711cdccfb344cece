//! What a person should do before an event, or during it.

use super::{
    alerts::{HARDWARE_FAILURE, STUCK, is_avoidable, is_short, notice_seconds},
    message::Text,
    start::Start,
};
use crate::{azure::event::Impact, core::lifecycle::IMMINENT_SECONDS};

impl Text<'_> {
    pub(super) fn to_do(&self) -> String {
        let event = &self.tracked.shown;
        let is_started = matches!(self.start, Start::Started(_));
        let is_due_by_approval = matches!(
            self.start,
            Start::Approved | Start::MayBeApproved | Start::AboutToBeApproved
        );
        let impact = event.impact();
        let is_ahead =
            notice_seconds(self.tracked).is_some_and(|notice| notice >= IMMINENT_SECONDS);
        let text = match impact {
            Impact::None if event.is_other_advisory() => {
                "read the text of Azure; no maintenance is scheduled"
            }
            _ if event.is_without_interruption() => "nothing",
            _ if self.has(STUCK) => {
                "check whether the VM works; if not, redeploy it or open a support request"
            }
            _ if self.has(HARDWARE_FAILURE) => {
                "check that other VMs carry the load; Azure restarts the VM"
            }
            Impact::Pause | Impact::Restart if is_started => {
                "wait until the VM is back; the alert ends then"
            }
            _ if self.is_user_initiated() && is_due_by_approval => {
                "wait until the VM is back; the alert ends then"
            }
            _ if self.is_user_initiated() => "approve the event, or wait",
            Impact::Pause if is_short(event.duration_seconds) => {
                "nothing, unless the VM cannot pause for some seconds"
            }
            _ if is_ahead && is_avoidable(event) && !is_due_by_approval => return self.redeploy(),
            _ => event.event_type.spec().to_do,
        };
        text.to_owned()
    }

    /// With the command, for a VM that is not in a scale set: an instance of a scale set has others.
    fn redeploy(&self) -> String {
        let text = "redeploy the VM yourself at a good time";
        let otherwise = self.tracked.shown.event_type.spec().to_do;
        let is_plain = |value: &str| {
            let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
            !value.is_empty() && value.chars().all(is_plain)
        };
        let Some(identity) = self.identity.filter(|identity| {
            identity.scale_set.is_empty()
                && is_plain(&identity.resource_group)
                && is_plain(&identity.name)
        }) else {
            return format!("{text}, or {otherwise}");
        };
        let name = match self.names(1).1 {
            1 => identity.name.as_str(),
            _ => "NAME",
        };
        let subscription = if is_plain(&identity.subscription_id) {
            format!(" --subscription {}", identity.subscription_id)
        } else {
            String::new()
        };
        let group = &identity.resource_group;
        format!("{text} (az vm redeploy -g {group} -n {name}{subscription}), or {otherwise}")
    }
}
