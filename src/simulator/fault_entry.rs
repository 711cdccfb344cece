//! The faults of a scenario file.

use hyper::StatusCode;
use serde::Deserialize;

use super::{
    scenario::{Fault, FaultSpec, Scenario},
    scenario_duration::ScenarioDuration,
};

/// The statuses of the Guest Proxy Agent: request refused, caller not identified, host not reachable. Source:
/// <https://github.com/Azure/GuestProxyAgent>.
const PROXY_STATUSES: [u16; 4] = [403, 421, 502, 503];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultEntry {
    #[serde(default)]
    at: ScenarioDuration,
    #[serde(default, rename = "for")]
    duration: Option<ScenarioDuration>,
    fault: FaultKind,
    #[serde(default)]
    retry_after: Option<ScenarioDuration>,
    #[serde(default)]
    status: Option<u16>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum FaultKind {
    Gone,
    Throttled,
    ServerError,
    Hang,
    Reset,
    Garbage,
    EmptyBody,
    Slow,
    RateLimit,
    MetadataProxy,
    Enabling,
    IncarnationReset,
}

impl FaultEntry {
    /// The error names the member and the problem.
    pub(super) fn add_to(&self, scenario: &mut Scenario) -> Result<(), String> {
        if self.fault == FaultKind::IncarnationReset && self.duration.is_some() {
            return Err("for: an incarnation-reset has no duration: leave it out".to_owned());
        }
        let Some(fault) = self.fault()? else {
            scenario.resets.push(self.at.0);
            return Ok(());
        };
        let duration = self
            .duration
            .ok_or("for: is missing: set the duration of the fault, such as \"1m\"")?
            .0;
        if duration.is_zero() {
            return Err("for: must be longer than 0s".to_owned());
        }
        scenario.faults.push(FaultSpec {
            at: self.at.0,
            duration,
            fault,
        });
        Ok(())
    }

    /// `None` for a reset of the incarnation, which has no duration.
    fn fault(&self) -> Result<Option<Fault>, String> {
        if self.retry_after.is_some() && self.fault != FaultKind::Throttled {
            return Err("retry_after: is valid for throttled only".to_owned());
        }
        if self.status.is_some() && self.fault != FaultKind::MetadataProxy {
            return Err("status: is valid for metadata-proxy only".to_owned());
        }
        Ok(Some(match self.fault {
            FaultKind::Gone => Fault::Gone,
            FaultKind::Throttled => Fault::Throttled(self.retry_after.map(|span| span.0.as_secs())),
            FaultKind::ServerError => Fault::ServerError,
            FaultKind::Hang => Fault::Hang,
            FaultKind::Reset => Fault::Reset,
            FaultKind::Garbage => Fault::Garbage,
            FaultKind::EmptyBody => Fault::EmptyBody,
            FaultKind::Slow => Fault::Slow,
            FaultKind::RateLimit => Fault::RateLimit,
            FaultKind::MetadataProxy => Fault::MetadataProxy(self.proxy_status()?),
            FaultKind::Enabling => Fault::Enabling,
            FaultKind::IncarnationReset => return Ok(None),
        }))
    }

    fn proxy_status(&self) -> Result<StatusCode, String> {
        self.status
            .filter(|status| PROXY_STATUSES.contains(status))
            .and_then(|status| StatusCode::from_u16(status).ok())
            .ok_or_else(|| "status: set it to 403, 421, 502 or 503".to_owned())
    }
}
