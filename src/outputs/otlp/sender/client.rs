//! The HTTP client for the collector of one signal.

use hyper_util::client::proxy::matcher::Intercept;
use reqwest::Client;

use crate::{
    http::client::{
        http::{self, ClientOptions},
        proxy,
        resolver::Resolver,
        tls::TlsFiles,
    },
    outputs::otlp::settings::{ExporterSettings, Protocol},
};

/// The proxy of the environment for the collector. For gRPC without TLS it would have to speak HTTP/2 too.
pub(super) fn proxy_of(settings: &ExporterSettings) -> Option<Intercept> {
    let is_used = settings.endpoint.scheme() == "https" || settings.protocol != Protocol::Grpc;
    proxy::of(&settings.endpoint).filter(|_| is_used)
}

/// The error is for the log.
pub(super) fn of(settings: &ExporterSettings, resolver: Resolver) -> Result<Client, String> {
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
