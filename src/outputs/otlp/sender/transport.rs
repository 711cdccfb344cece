//! Posts what OpenTelemetry's exporters encode to the collector of one signal, and keeps what the response says.

use std::{
    future::Future,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use hyper_util::client::proxy::matcher::Intercept;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol as OtlpProtocol, WithExportConfig, WithHttpConfig};
use reqwest::{
    Client,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, TE},
};

use super::{
    answer::gunzip,
    grpc,
    response::{Disposition, Retry},
};
use crate::{
    base::{time::Clock, worker::Worker},
    http::client::{
        http::{self, ClientOptions, read_up_to},
        proxy,
        resolver::Resolver,
        retry::retry_after,
        tls::TlsFiles,
        url::{self, Secrets},
    },
    outputs::{
        metrics::exposition::gzip,
        otlp::settings::{ExporterSettings, Protocol},
        output_counters::ExportFailure,
    },
};

const MAX_BODY_BYTES: usize = 64 << 10;

/// The client of an exporter. It answers each request with success: the exporter would hide the response, and repeat the
/// request by itself.
#[derive(Debug, Clone)]
pub(super) struct Transport(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: ExporterSettings,
    secrets: Secrets,
    clock: Clock,
    /// Reads certificates and resolves host names.
    worker: Worker,
    /// `None` until the first attempt, and after some failures.
    client: Mutex<Option<Client>>,
    /// What the last response to a request of an exporter says.
    answer: Mutex<Option<Disposition>>,
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let disposition = self.post(request.into_body()).await;
        *lock(&self.0.answer) = Some(disposition);
        Ok(Response::new(Bytes::new()))
    }
}

impl Transport {
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn new(settings: &ExporterSettings, clock: Clock) -> io::Result<Self> {
        Ok(Self(Arc::new(Shared {
            settings: settings.clone(),
            secrets: http::secrets(&settings.endpoint, &settings.headers),
            clock,
            worker: Worker::start("otlp")?,
            client: Mutex::new(None),
            answer: Mutex::new(None),
        })))
    }

    pub(super) fn settings(&self) -> &ExporterSettings {
        &self.0.settings
    }

    /// The proxy for messages, without secrets.
    pub(super) fn shown_proxy(&self) -> Option<String> {
        proxy_of(&self.0.settings).as_ref().map(proxy::shown)
    }

    /// The next request reads the certificates and connects.
    pub(super) fn reconnect(&self) {
        *lock(&self.0.client) = None;
    }

    /// Makes this the client of an exporter, whose endpoint is not used.
    pub(super) fn configure<B: WithExportConfig + WithHttpConfig>(&self, builder: B) -> B {
        builder
            .with_http_client(self.clone())
            .with_protocol(OtlpProtocol::HttpBinary)
            .with_endpoint("http://localhost")
    }

    /// What the response to the request of an exporter says.
    pub(super) async fn answer(
        &self,
        exported: impl Future<Output = Result<(), HttpError>>,
    ) -> Disposition {
        let exported = exported.await;
        let answer = lock(&self.0.answer).take();
        answer.unwrap_or_else(|| {
            let error = exported.err().map(|error| error.to_string());
            Disposition::Refused {
                reason: ExportFailure::Rejected,
                message: error.unwrap_or_else(|| "the exporter made no request".to_owned()),
            }
        })
    }

    /// Sends a request with this body.
    pub(super) async fn post(&self, body: Bytes) -> Disposition {
        let posted = self.try_post(body).await;
        posted.unwrap_or_else(Disposition::Retry)
    }

    async fn try_post(&self, mut body: Bytes) -> Result<Disposition, Retry> {
        let client = self.client().await?;
        let Shared {
            settings, secrets, ..
        } = &*self.0;
        let is_grpc = settings.protocol == Protocol::Grpc;
        let compressed = settings.gzip.then(|| gzip(&body)).and_then(Result::ok);
        let is_compressed = compressed.is_some();
        body = compressed.map_or(body, Into::into);
        let mut encoding = CONTENT_ENCODING;
        let mut request = if is_grpc {
            body = grpc::frame(&body, is_compressed);
            encoding = HeaderName::from_static("grpc-encoding");
            let url = url::under(&settings.endpoint, settings.signal.grpc_path());
            let request = client.post(url).header(TE, "trailers");
            request.header(CONTENT_TYPE, "application/grpc")
        } else {
            let request = client.post(settings.endpoint.clone());
            // hyper omits the length of an empty body, and servers answer 411.
            let request = request.header(CONTENT_LENGTH, body.len());
            request.header(CONTENT_TYPE, "application/x-protobuf")
        };
        if is_compressed {
            request = request.header(encoding, "gzip");
        }
        let request = request.timeout(settings.timeout);
        let request = request.headers(settings.headers.clone()).body(body);
        let unanswered = |error| Retry::unanswered(error, settings, secrets);
        let mut response = request.send().await.map_err(unanswered)?;
        if is_grpc && grpc::is_grpc(&response) {
            let read = grpc::read(response, MAX_BODY_BYTES).await;
            let (headers, message) = read.map_err(unanswered)?;
            return Ok(grpc::disposition(&headers, &message, settings, secrets));
        }
        let mut body = read_up_to(&mut response, MAX_BODY_BYTES).await;
        if response.headers().contains_key(CONTENT_ENCODING) {
            body = gunzip(&body, MAX_BODY_BYTES);
        }
        let retry_after = retry_after(response.headers(), self.0.clock.now().wall);
        let (status, headers) = (response.status(), response.headers());
        Ok(Disposition::of(
            status,
            headers,
            retry_after,
            &body,
            settings,
            secrets,
        ))
    }

    async fn client(&self) -> Result<Client, Retry> {
        if let Some(client) = &*lock(&self.0.client) {
            return Ok(client.clone());
        }
        let settings = self.0.settings.clone();
        let worker = &self.0.worker;
        let resolver = Resolver::new(worker.clone());
        let made = worker.run_while_awaited(move || client_of(&settings, resolver));
        match made.await {
            Some(Ok(client)) => {
                *lock(&self.0.client) = Some(client.clone());
                Ok(client)
            }
            Some(Err(message)) => Err(Retry::new(ExportFailure::Tls, message)),
            None => {
                let message = "the thread that reads files and resolves host names hangs";
                Err(Retry::new(ExportFailure::Connect, message.to_owned()))
            }
        }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The proxy of the environment for the collector. For gRPC without TLS it would have to speak HTTP/2 too.
fn proxy_of(settings: &ExporterSettings) -> Option<Intercept> {
    let is_used = settings.endpoint.scheme() == "https" || settings.protocol != Protocol::Grpc;
    proxy::of(&settings.endpoint).filter(|_| is_used)
}

/// The error is for the log.
fn client_of(settings: &ExporterSettings, resolver: Resolver) -> Result<Client, String> {
    let is_https = settings.endpoint.scheme() == "https";
    let no_files = TlsFiles::default();
    http::client(ClientOptions {
        url: &settings.endpoint,
        files: if is_https { &settings.files } else { &no_files },
        file_settings: [
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY",
        ],
        proxy: proxy_of(settings),
        resolver,
        is_http2: settings.protocol == Protocol::Grpc,
        connect_timeout: settings.timeout,
    })
}
