//! HTTP requests to one Alertmanager.

use std::time::Duration;

use reqwest::{
    RequestBuilder,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use tokio::time::timeout;

use super::{
    alert::Alert,
    target::{Target, TargetError},
};
use crate::{
    outbound::{
        error::root_cause,
        http::{add_proxy_secrets, describe, read_up_to},
        resolver::Resolver,
        retry::retry_after,
        url::Secrets,
    },
    time::Clock,
    worker::Worker,
};

/// Bytes that are read of a response that explains an error.
const MAX_ERROR_BODY: usize = 4 << 10;
/// Characters of it that are logged.
const MAX_MESSAGE: usize = 300;

/// Why a request failed.
#[derive(Debug)]
pub(super) struct RequestFailure {
    /// Without secrets.
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
}

impl From<String> for RequestFailure {
    fn from(message: String) -> Self {
        Self {
            message,
            retry_after: None,
        }
    }
}

#[derive(Debug)]
pub(super) struct AlertmanagerClient {
    pub(super) target: Target,
    pub(super) clock: Clock,
    http: reqwest::Client,
    /// Reads credentials and resolves host names.
    worker: Worker,
}

impl AlertmanagerClient {
    pub(super) fn new(target: Target, worker: Worker, clock: Clock) -> Result<Self, TargetError> {
        Ok(Self {
            http: target.client(Resolver::new(worker.clone()))?,
            target,
            clock,
            worker,
        })
    }

    pub(super) async fn push(&self, alerts: &[&Alert]) -> Result<(), RequestFailure> {
        let body = serde_json::to_vec(alerts).map_err(|error| error.to_string())?;
        let request = self.http.post(self.target.alerts.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(body);
        let limit = self.target.timing.push_timeout;
        timeout(limit, self.send(request))
            .await
            .unwrap_or_else(|_elapsed| Err(format!("no response within {limit:?}").into()))
    }

    /// With the credentials. Any status but 2xx is an error.
    async fn send(&self, mut request: RequestBuilder) -> Result<(), RequestFailure> {
        let mut secrets = Secrets::of(&self.target.alerts);
        add_proxy_secrets(&mut secrets);
        if let Some(credentials) = self.target.credentials.clone() {
            let path = credentials.path().display().to_string();
            let read = self.worker.run_while_awaited(move || credentials.header());
            let header = read
                .await
                .ok_or_else(|| format!("{path}: earlier reads of it hang"))?
                .map_err(|why| format!("{path} {why}"))?;
            let value = String::from_utf8_lossy(header.as_bytes());
            secrets.add_header(value.split_once(' ').map_or(&*value, |(_, it)| it));
            request = request.header(AUTHORIZATION, header);
        }
        let sent = request.send().await;
        let mut response = sent.map_err(|error| root_cause(&error.without_url()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let retry_after = retry_after(response.headers(), self.clock.now().wall);
        let body = read_up_to(&mut response, MAX_ERROR_BODY).await;
        Err(RequestFailure {
            message: describe(status, &body, MAX_MESSAGE, &secrets),
            retry_after,
        })
    }
}
