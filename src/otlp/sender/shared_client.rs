//! The HTTP client of the signals with the same host and certificates. They share it, because a system's store of
//! certificates is large.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::Client;
use tokio::sync::Mutex;

use crate::{
    otlp::settings::{ClientCertificate, ExporterSettings},
    outbound::{
        error::root_cause,
        http::{self, Authorities, PemError},
        resolver::Resolver,
    },
    snapshot::ExportFailure,
    worker::Worker,
};

/// Why no client can be made now.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    #[error("{variable}: {path} {cause}", path = path.display())]
    File {
        variable: &'static str,
        path: PathBuf,
        cause: PemError,
    },
    /// No client, usually because the system has no certificates.
    #[error(
        "no client can be made: {0}; where the system has no certificates, OTEL_EXPORTER_OTLP_CERTIFICATE names a file of them"
    )]
    Client(String),
    #[error("the thread that reads files and resolves host names cannot be started: {0}")]
    Thread(#[from] io::Error),
    #[error("the thread that reads files and resolves host names hangs")]
    Busy,
}

impl SetupError {
    pub(super) fn reason(&self) -> ExportFailure {
        match self {
            Self::File { .. } | Self::Client(_) => ExportFailure::Tls,
            Self::Thread(_) | Self::Busy => ExportFailure::Connect,
        }
    }
}

/// Certificate files that cannot be read are read again with the next attempt. After a TLS failure all are read again,
/// but not more often than at `reload_interval`.
#[derive(Debug)]
pub(super) struct SharedClient {
    /// No signal waits for the lookup of the host of another.
    host: String,
    certificates: Certificates,
    reload_interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Reads certificates and resolves host names. Without a thread now, the next attempt starts it.
    worker: Option<Worker>,
    client: Option<Client>,
    /// By the monotonic clock.
    reload_at: Duration,
}

impl SharedClient {
    pub(super) fn new(settings: &ExporterSettings, reload_interval: Duration) -> Self {
        Self {
            host: host(settings),
            certificates: Certificates::of(settings),
            reload_interval,
            state: Mutex::new(State {
                worker: start_worker().ok(),
                client: None,
                reload_at: Duration::ZERO,
            }),
        }
    }

    pub(super) fn suits(&self, settings: &ExporterSettings) -> bool {
        self.host == host(settings) && self.certificates == Certificates::of(settings)
    }

    /// Reads the certificates if there is no client yet; the first request connects.
    pub(super) async fn get(&self, now: Duration) -> Result<Client, SetupError> {
        let mut state = self.state.lock().await;
        if let Some(client) = &state.client {
            return Ok(client.clone());
        }
        state.reload_at = now.saturating_add(self.reload_interval);
        let worker = match &state.worker {
            Some(worker) => worker.clone(),
            None => start_worker()?,
        };
        state.worker = Some(worker.clone());
        let (certificates, resolver) = (self.certificates.clone(), Resolver::new(worker.clone()));
        let client = worker
            .run_while_awaited(move || certificates.client(resolver))
            .await
            .ok_or(SetupError::Busy)??;
        Ok(state.client.insert(client).clone())
    }

    /// After a TLS failure. The old client is dropped before the next one reads the certificates.
    pub(super) async fn discard_if_stale(&self, now: Duration) {
        let mut state = self.state.lock().await;
        if now >= state.reload_at {
            state.client = None;
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Certificates {
    authorities: Authorities,
    own: Option<ClientCertificate>,
}

impl Certificates {
    fn of(settings: &ExporterSettings) -> Self {
        let is_https = settings.endpoint.scheme() == "https";
        let ca_file = settings.certificate.as_deref().filter(|_| is_https);
        Self {
            authorities: Authorities::of(&settings.endpoint, ca_file),
            own: settings.client.clone().filter(|_| is_https),
        }
    }

    fn client(&self, resolver: Resolver) -> Result<Client, SetupError> {
        const CA_FILE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";
        const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
        const KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";
        let ca_file = match &self.authorities {
            Authorities::File(path) => path,
            Authorities::Unused | Authorities::System => Path::new(""),
        };
        let mut builder = http::client(&self.authorities, resolver)
            .map_err(|cause| file_error(CA_FILE, ca_file, cause))?;
        if let Some(own) = &self.own {
            let read = |variable, path: &Path| {
                fs::read(path).map_err(|cause| file_error(variable, path, cause.into()))
            };
            let (certificate, key) = (read(CERTIFICATE, &own.certificate)?, read(KEY, &own.key)?);
            let identity = http::identity(&certificate, &key)
                .map_err(|cause| file_error(CERTIFICATE, &own.certificate, cause))?;
            builder = builder.identity(identity);
        }
        builder
            .build()
            .map_err(|error| SetupError::Client(root_cause(&error)))
    }
}

fn host(settings: &ExporterSettings) -> String {
    settings.endpoint.host_str().unwrap_or_default().to_owned()
}

fn file_error(variable: &'static str, path: &Path, cause: PemError) -> SetupError {
    SetupError::File {
        variable,
        path: path.to_owned(),
        cause,
    }
}

fn start_worker() -> io::Result<Worker> {
    Worker::start("otlp")
}
