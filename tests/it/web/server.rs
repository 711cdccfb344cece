//! A site on a socket of its own, and a client that says exactly what it is told to.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use azure_scheduled_events_exporter::{
    metrics::MetricsOptions,
    server::{self, ServerLimits},
    snapshot::{SeriesScope, Snapshot},
    web::{WebService, WebSettings},
};
use tokio::sync::{oneshot, watch};

use super::picture::at;

/// Far more than an answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running site.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) snapshot: watch::Sender<Arc<Snapshot>>,
    /// Seconds on the clock of the site.
    pub(crate) seconds: Arc<Mutex<u64>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(snapshot: Snapshot) -> Self {
        Self::with(snapshot, settings(), ServerLimits::default())
    }

    pub(crate) fn with(snapshot: Snapshot, settings: WebSettings, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (snapshot, receiver) = watch::channel(Arc::new(snapshot));
        let seconds = Arc::new(Mutex::new(0));
        let clock = Arc::clone(&seconds);
        let site = WebService::at(settings, receiver, Arc::default(), move || {
            at(*clock.lock().unwrap())
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let stopped = async {
                drop(stopped.await);
            };
            runtime
                .block_on(server::serve(listener, site, limits, stopped))
                .unwrap();
        };
        Self {
            address,
            snapshot,
            seconds,
            stop: Some(stop),
            thread: Some(std::thread::spawn(serve)),
        }
    }

    pub(crate) fn connect(&self) -> Connection {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection(BufReader::new(stream))
    }

    /// GET with these header lines.
    pub(crate) fn get(&self, path: &str, headers: &[&str]) -> Reply {
        self.ask("GET", path, headers)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str]) -> Reply {
        let mut connection = self.connect();
        connection.ask(method, path, headers);
        connection.reply(method).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
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
        serving_lead_time: Duration::from_mins(5),
    }
}

pub(crate) struct Connection(pub(crate) BufReader<TcpStream>);

impl Connection {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &[&str]) {
        let start = format!("{method} {path} HTTP/1.1");
        let lines = [&[start.as_str(), "Host: test"], headers, &["\r\n"]].concat();
        self.send(lines.join("\r\n").as_bytes());
    }

    /// The next answer; `None` where the connection is closed instead.
    pub(crate) fn reply(&mut self, method: &str) -> Option<Reply> {
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
        let status = head[0].split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = head[1..]
            .iter()
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut reply = Reply {
            status,
            headers,
            body: Vec::new(),
        };
        if method != "HEAD" {
            let length = reply.header("content-length").unwrap().parse().unwrap();
            reply.body.resize(length, 0);
            self.0.read_exact(&mut reply.body).unwrap();
        }
        Some(reply)
    }

    /// Everything until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end too.
        drop(self.0.read_to_end(&mut rest));
        rest
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert_eq!(found.next(), None, "{name} stands twice");
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
