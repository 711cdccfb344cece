//! How IMDS is read.

use std::{sync::Arc, time::Duration};

use super::{
    super::error::{CommandError, flag_error},
    in_range,
};
use crate::{
    azure::{
        api_version::{LATEST_API_VERSION, RequestedVersion},
        imds::{Endpoint, IdentityTiming},
    },
    program::cli::ImdsFlags,
};

/// The first response after Scheduled Events was enabled may take two minutes.
const MIN_FIRST_TIMEOUT: Duration = Duration::from_secs(130);
const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// Settings of all commands that read IMDS.
#[derive(Debug, Clone)]
pub struct ImdsSettings {
    pub endpoint: Endpoint,
    pub api_version: RequestedVersion,
    /// Per request.
    pub timeout: Duration,
    /// Per poll that follows timeouts (`imds::timeouts::PollTimeouts`).
    pub first_timeout: Duration,
    pub identity_timing: IdentityTiming,
    /// The value of `--vm.name`.
    pub vm_name: Option<Arc<str>>,
}

impl ImdsSettings {
    pub(crate) fn new(flags: &ImdsFlags) -> Result<Self, CommandError> {
        let api_version = RequestedVersion::parse(&flags.api_version).ok_or_else(|| {
            let problem = format!(
                "{:?} is not a date as YYYY-MM-DD: use a version of the Scheduled Events API, such as {LATEST_API_VERSION}",
                flags.api_version,
            );
            flag_error("imds.api-version", problem)
        })?;
        let endpoint = Endpoint::new(&flags.url, &api_version)
            .map_err(|error| flag_error("imds.url", error.to_string()))?;
        let min = Duration::from_millis(1);
        let timeout = in_range("imds.timeout", flags.timeout, min, MAX_TIMEOUT)?;
        Ok(Self {
            endpoint,
            api_version,
            timeout,
            first_timeout: timeout.max(MIN_FIRST_TIMEOUT),
            identity_timing: IdentityTiming::default(),
            vm_name: vm_name(flags.vm_name.as_deref())?.map(Arc::from),
        })
    }
}

pub(super) fn vm_name(given: Option<&str>) -> Result<Option<&str>, CommandError> {
    let name = given.map(str::trim);
    if name.is_some_and(str::is_empty) {
        let problem = "is empty: use the name of this VM in Resources, or omit the flag";
        return Err(flag_error("vm.name", problem));
    }
    Ok(name)
}
