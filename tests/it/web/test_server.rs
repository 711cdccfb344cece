//! A `WebService` on a loopback socket, and a client that sends raw requests.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use azure_scheduled_events_exporter::{
    metrics::MetricsOptions,
    server::ServerLimits,
    snapshot::{SeriesScope, Snapshot},
    time::Moment,
    web::{WebService, WebSettings},
};
use tokio::sync::watch;

use super::snapshot::at;
use crate::support::served::{Response, Served};

/// Longer than any response takes on a busy machine.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) struct TestServer {
    _served: Served,
    pub(crate) address: SocketAddr,
    pub(crate) snapshot: watch::Sender<Arc<Snapshot>>,
    /// The time of the service, as for [`at`].
    pub(crate) seconds: Arc<Mutex<u64>>,
}

impl TestServer {
    pub(crate) fn start(snapshot: Snapshot) -> Self {
        Self::with(snapshot, settings(), ServerLimits::default())
    }

    pub(crate) fn with(snapshot: Snapshot, settings: WebSettings, limits: ServerLimits) -> Self {
        let seconds = Arc::new(Mutex::new(0));
        let clock = Arc::clone(&seconds);
        let now = move || at(*clock.lock().unwrap());
        let mut server = Self::with_clock(snapshot, settings, limits, now);
        server.seconds = seconds;
        server
    }

    /// [`TestServer::seconds`] has no effect.
    pub(crate) fn with_clock(
        snapshot: Snapshot,
        settings: WebSettings,
        limits: ServerLimits,
        now: impl Fn() -> Moment + Send + Sync + 'static,
    ) -> Self {
        let (snapshot, receiver) = watch::channel(Arc::new(snapshot));
        let service = WebService::new(settings, receiver, Arc::default(), now);
        let served = Served::start(service, limits);
        Self {
            address: served.address,
            _served: served,
            snapshot,
            seconds: Arc::default(),
        }
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(READ_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection(BufReader::new(stream))
    }

    /// Sends a GET with these header lines.
    pub(crate) fn get(&self, path: &str, headers: &[&str]) -> Response {
        self.request("GET", path, headers)
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &[&str]) -> Response {
        let mut connection = self.connect();
        connection.request(method, path, headers);
        connection.response(method).unwrap()
    }
}

pub(crate) fn settings() -> WebSettings {
    WebSettings {
        telemetry_path: "/metrics".to_owned(),
        exposed: MetricsOptions {
            scope: SeriesScope::All,
            resources: true,
            process: false,
        },
        simulator: None,
        serving_lead_time: Duration::from_mins(5),
    }
}

pub(crate) struct Connection(pub(crate) BufReader<TcpStream>);

impl Connection {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn request(&mut self, method: &str, path: &str, headers: &[&str]) {
        let start = format!("{method} {path} HTTP/1.1");
        let lines = [&[start.as_str(), "Host: test"], headers, &["\r\n"]].concat();
        self.send(lines.join("\r\n").as_bytes());
    }

    /// The next response; `None` if the connection is closed.
    pub(crate) fn response(&mut self, method: &str) -> Option<Response> {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if !matches!(self.0.read_line(&mut line), Ok(length) if length > 0) {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let mut response = Response::of_head(head.iter().map(String::as_str))?;
        if method != "HEAD" {
            let length = response.header("content-length").unwrap().parse().unwrap();
            response.body.resize(length, 0);
            self.0.read_exact(&mut response.body).unwrap();
        }
        Some(response)
    }

    /// Everything until the server closes the connection.
    pub(crate) fn read_to_close(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset closes the connection too.
        self.0.read_to_end(&mut rest).ok();
        rest
    }
}
