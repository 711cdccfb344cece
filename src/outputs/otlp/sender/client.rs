//! The HTTP client for the collector of one signal.

use reqwest::{Client, Url};

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
pub(super) fn proxy_of(settings: &ExporterSettings) -> Result<Option<Url>, String> {
    let is_used = settings.endpoint.scheme() == "https" || settings.protocol != Protocol::Grpc;
    Ok(proxy::of(&settings.endpoint)?.filter(|_| is_used))
}

/// The error is for the log.
pub(super) fn of(settings: &ExporterSettings, resolver: Resolver) -> Result<Client, String> {
    let is_https = settings.endpoint.scheme() == "https";
    let proxy = proxy_of(settings)?;
    let no_files = TlsFiles::default();
    http::client(ClientOptions {
        url: &settings.endpoint,
        files: if is_https { &settings.files } else { &no_files },
        file_settings: [
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY",
        ],
        proxy: proxy.as_ref(),
        resolver,
        is_http2: settings.protocol == Protocol::Grpc,
        connect_timeout: settings.timeout,
    })
}
