//! Reads `/api/v1/transitions` of the exporter.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{StatusCode, Url, header::AUTHORIZATION};

use crate::{
    http::client::{
        ClientOptions, Credentials, build_client, causes, describe, is_tls, read,
        resolver::Resolver,
        root_cause,
        tls::TlsFiles,
        url::{self, BaseRemedies, Secrets},
    },
    program::{CommandError, cli::WatchFlags, flag_error},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// For a whole request. The first one with a password takes the time of a hash.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Far more than the events of a VM; other servers may send anything.
const MAX_BODY: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct ExporterClient {
    http: reqwest::Client,
    pub(super) url: Url,
    credentials: Option<Credentials>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(
        "{0} (if no exporter runs here, start azure-scheduled-events-exporter; --url names another address)"
    )]
    Unreachable(String),
    #[error("{0} (--ca-file names the certificate authorities of the exporter)")]
    Tls(String),
    #[error("{0}")]
    Status(String),
    #[error("--user-file: {0}")]
    Credentials(String),
    #[error("the response is not that of this exporter: {0}")]
    Body(String),
}

impl ExporterClient {
    /// A cryptography provider must be installed in the process.
    pub(super) fn new(flags: &WatchFlags) -> Result<Self, CommandError> {
        let url = transitions_url(&flags.url)?;
        let credentials = flags.user_file.clone().map(Credentials::Basic);
        if let Some(credentials) = &credentials {
            let header = credentials.header();
            header.map_err(|why| flag_error("user-file", why))?;
        }
        let resolver = Resolver::for_host(url.host_str().unwrap_or_default())
            .map_err(|cause| CommandError::system("cannot start a thread", &cause))?;
        let files = TlsFiles {
            ca: flags.ca_file.clone(),
            client: None,
        };
        let http = build_client(ClientOptions {
            url: &url,
            files: &files,
            file_settings: ["--ca-file"; 3],
            // The exporter is on this machine.
            proxy: None,
            resolver,
            is_http2: false,
            connect_timeout: CONNECT_TIMEOUT,
        })
        .map_err(CommandError::usage)?;
        Ok(Self {
            http,
            url,
            credentials,
        })
    }

    /// Reads the transitions after this one, or all that the exporter knows.
    pub(super) async fn read(&self, after: Option<u64>) -> Result<Bytes, ReadError> {
        let mut url = self.url.clone();
        url.set_query(after.map(|number| format!("after={number}")).as_deref());
        let mut request = self.http.get(url).timeout(REQUEST_TIMEOUT);
        let mut secrets = Secrets::of(&self.url);
        if let Some(credentials) = &self.credentials {
            let header = credentials.header().map_err(ReadError::Credentials)?;
            secrets.add_header(&String::from_utf8_lossy(header.as_bytes()));
            request = request.header(AUTHORIZATION, header);
        }
        let failed = |error: reqwest::Error| {
            let error = error.without_url();
            let cause = root_cause(&error);
            if causes(&error).any(is_tls) {
                ReadError::Tls(cause)
            } else {
                ReadError::Unreachable(cause)
            }
        };
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(ReadError::Status(match status {
                StatusCode::UNAUTHORIZED => {
                    format!("HTTP {status} (--user-file names the file with user and password)")
                }
                StatusCode::NOT_FOUND => {
                    format!("HTTP {status} (--url is the base URL of the exporter)")
                }
                _ => {
                    let response = read(response).await;
                    describe(&response, response.body(), &self.url, &secrets)
                }
            }));
        }
        let mut body = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len().saturating_add(chunk.len()) > MAX_BODY {
                return Err(ReadError::Body(format!("longer than {MAX_BODY} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }
}

fn transitions_url(text: &str) -> Result<Url, CommandError> {
    let remedies = BaseRemedies {
        form: "write it as http://127.0.0.1:10169",
        credentials: "use --user-file",
        query: "give the base alone",
    };
    let base = url::base(text, &remedies).map_err(|why| flag_error("url", why))?;
    Ok(url::under(&base, "/api/v1/transitions"))
}
