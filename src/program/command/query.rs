//! What `list` and `approve` ask IMDS.

use std::{future::pending, sync::Arc, time::Duration};

use tokio::time::sleep;

use crate::{
    azure::{
        FailureReason, RequestError,
        document::{Answer, Document},
        event::VmNames,
        imds::Client,
    },
    base::time::{Clock, Moment},
    core::{engine::log_anomaly, snapshot::Snapshot},
    program::{CommandError, cli::ImdsFlags, config::ImdsSettings, logs},
};

const MAX_RETRY_TIME: Duration = Duration::from_secs(10);
/// The delay before a repeated request without `Retry-After`.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const NOTICE_DELAY: Duration = Duration::from_secs(2);
pub(super) const FIRST_ANSWER: &str = "The first answer may take two minutes.";

/// What a document without events means: when Scheduled Events was enabled is not known.
pub(super) const NO_EVENTS: &str =
    "No events yet: they may take five minutes to appear after the first request of any client.\n";

/// A client of IMDS for one command.
pub(super) struct Query {
    pub(super) client: Client,
    pub(super) settings: ImdsSettings,
    pub(super) clock: Clock,
}

impl Query {
    pub(super) fn new(flags: &ImdsFlags) -> Result<Self, CommandError> {
        let settings = ImdsSettings::new(flags)?;
        let clock = Clock::start();
        Ok(Self {
            client: Client::new(&settings.endpoint, clock)?,
            settings,
            clock,
        })
    }

    /// Says on stderr after two seconds that the command waits for IMDS, and why.
    pub(super) async fn with_notice<T>(
        &mut self,
        why: &str,
        requests: impl AsyncFnOnce(&mut Self) -> T,
    ) -> T {
        let base = self.settings.endpoint.base().to_owned();
        let notice = async {
            sleep(NOTICE_DELAY).await;
            logs::print_stderr(&format!("Waiting for IMDS at {base}. {why}\n"));
            pending().await
        };
        tokio::select! {
            result = requests(self) => result,
            result = notice => result,
        }
    }

    /// The delay before a failed request is repeated; `None` if it is not temporary, or too much time has passed since
    /// `began`.
    pub(super) fn retry_delay(&self, error: &RequestError, began: Moment) -> Option<Duration> {
        let delay = error.retry_after.unwrap_or_default().max(RETRY_INTERVAL);
        let waited = self.clock.now().monotonic - began.monotonic;
        (error.is_temporary() && waited.saturating_add(delay) <= MAX_RETRY_TIME).then_some(delay)
    }

    /// The names of this VM, or why they are not known. Where `--vm.name` is given, instance metadata are only compared
    /// with it, and requested once.
    pub(super) async fn read_vm(&mut self) -> Snapshot {
        let began = self.clock.now();
        let mut vm = Snapshot::empty(self.settings.vm_name.clone(), began);
        loop {
            let error = match self.client.identify(self.settings.timeout).await {
                Ok(identity) => {
                    vm.vm_name.get_or_insert_with(|| Arc::from(&*identity.name));
                    vm.identity = Some(Arc::new(identity));
                    return vm;
                }
                Err(error) => error,
            };
            let delay = self.retry_delay(&error, began);
            let Some(delay) = delay.filter(|_| vm.vm_name.is_none()) else {
                vm.identity_error = Some(Arc::new(error));
                return vm;
            };
            sleep(delay).await;
        }
    }

    /// Reads the document, and logs its anomalies. A timeout is followed by one request with `long_timeout`, if given.
    pub(super) async fn read(
        &mut self,
        mut long_timeout: Option<Duration>,
    ) -> Result<Document, CommandError> {
        let began = self.clock.now();
        let mut timeout = self.settings.timeout;
        let answer = loop {
            let error = match self.client.poll(timeout).await {
                Ok(answer) => break answer,
                Err(error) => error,
            };
            let is_timeout = error.reason == FailureReason::Timeout && !error.is_unsent;
            if is_timeout && let Some(long_timeout) = long_timeout.take() {
                timeout = long_timeout;
            } else if let Some(delay) = self.retry_delay(&error, began) {
                sleep(delay).await;
            } else {
                return Err(CommandError::new(error.to_string()));
            }
        };
        match answer {
            Answer::Document {
                document,
                anomalies,
            } => {
                for anomaly in &anomalies.described {
                    log_anomaly(anomaly);
                }
                Ok(document)
            }
            // Only for a client that knows a document.
            Answer::Unchanged => Err(CommandError::new("the document is unchanged".to_owned())),
        }
    }

    /// Reads the document, whose first answer may take two minutes. Errors name what was asked: the address may be
    /// another service than IMDS.
    pub(super) async fn read_first(&mut self) -> Result<Document, CommandError> {
        let document = self.read(Some(self.settings.first_timeout)).await;
        document.map_err(|error| {
            let base = self.settings.endpoint.base();
            if error.message.contains(base) {
                return error;
            }
            CommandError::new(format!("GET {base}/metadata/scheduledevents: {error}"))
        })
    }
}

pub(super) fn vm_names(vm: &Snapshot) -> VmNames<'_> {
    let identity = vm.identity.as_ref();
    let metadata_name = identity.map(|identity| identity.name.as_str());
    VmNames::new(vm.vm_name.as_deref(), metadata_name)
}

/// A clause, if no name is known.
pub(super) fn unknown_name(vm: &Snapshot) -> Option<String> {
    let error = vm
        .identity_error
        .as_ref()
        .filter(|_| vm.vm_name.is_none())?;
    Some(format!(
        "the name of this VM is unknown (instance metadata: {error}): set --vm.name"
    ))
}

/// A clause, if the two names differ.
pub(super) fn contradiction(vm: &Snapshot) -> Option<String> {
    let (vm_name, name) = (vm.vm_name.as_deref()?, vm.other_vm_name()?);
    Some(format!(
        "--vm.name is {vm_name:?}, but instance metadata name this VM {name:?}: events with either name are this VM's, \
         and nothing is approved; correct --vm.name, or omit it"
    ))
}
