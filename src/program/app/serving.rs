//! The HTTP server of the exporter: its sockets, checks and limits.

use std::{net::TcpListener, sync::Arc};

use tracing::info;

use super::tasks::Tasks;
use crate::{
    base::system,
    http::{
        listen::ListenAddress,
        server::{self, ServerLimits},
        web_config::{Protected, WebConfig},
    },
    outputs::web::{PROBE_PATHS, WebService},
    program::CommandError,
};

/// The process has about 14 open files when it is idle. Each use of a file, of a socket and of the name resolution
/// needs a few more for a short time.
const RESERVED_DESCRIPTORS: usize = 36;
const DESCRIPTORS_PER_ALERTMANAGER: usize = 2;

/// Opens the sockets of the exporter.
pub fn bind(addresses: &[ListenAddress]) -> Result<Vec<TcpListener>, CommandError> {
    let bind = |address: &ListenAddress| {
        let bound = address.bind();
        bound.map_err(CommandError::listen(&address.to_string()))
    };
    let bound: Vec<_> = addresses.iter().map(bind).collect::<Result<_, _>>()?;
    Ok(bound.into_iter().flatten().collect())
}

/// Serves on each socket.
pub(super) fn serve(
    listeners: Vec<TcpListener>,
    service: Protected,
    limits: ServerLimits,
    tasks: &mut Tasks,
) {
    let Protected { handler, acceptor } = service;
    if listeners.is_empty() {
        info!("no HTTP server, as --web.listen-address=none says");
    }
    for listener in listeners {
        let (handler, acceptor) = (Arc::clone(&handler), acceptor.clone());
        let served = server::serve(listener, acceptor, handler, limits, tasks.stop.clone());
        tasks.spawn("HTTP server", async {
            served.await.map_err(|error| error.to_string())
        });
    }
}

/// Puts the checks of `--web.config.file` in front of the web service.
pub(super) fn protect(
    web_config: Option<WebConfig>,
    service: WebService,
) -> Result<Protected, CommandError> {
    let service = Arc::new(service);
    match web_config {
        None => Ok(Protected {
            handler: service,
            acceptor: None,
        }),
        Some(web_config) => web_config
            .protect(service, &PROBE_PATHS)
            .map_err(CommandError::thread("reads --web.config.file")),
    }
}

/// HTTP clients get the file descriptors that polls, state, OTLP and Alertmanagers do not need.
pub(super) fn server_limits(listeners: usize, alertmanagers: usize) -> ServerLimits {
    let limits = ServerLimits::default();
    let Some(open_files) = system::max_open_files() else {
        return limits;
    };
    let reserved = RESERVED_DESCRIPTORS + alertmanagers * DESCRIPTORS_PER_ALERTMANAGER;
    let within = limits.within(open_files, reserved, listeners);
    if within.max_connections < limits.max_connections {
        info!(
            max_open_files = open_files,
            max_connections = within.max_connections,
            "fewer HTTP connections because of the limit on open files"
        );
    }
    within
}
