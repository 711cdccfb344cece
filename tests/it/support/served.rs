//! A handler of the program's own server on a loopback socket, and what it answers.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::JoinHandle,
};

use azure_scheduled_events_exporter::server::{self, Handler, ServerLimits};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A server on its own thread; it stops when it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn start(handler: impl Handler, limits: ServerLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let serving = server::serve(listener, Arc::new(handler), limits, stopped);
            runtime.block_on(serving).unwrap();
        };
        Self {
            address,
            stop,
            thread: Some(std::thread::spawn(serve)),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server panicked");
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// One without a body, from the lines before it.
    pub(crate) fn of_head<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        Some(Self {
            status,
            headers: headers.collect(),
            body: Vec::new(),
        })
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let is_known = |known: &str| known.eq_ignore_ascii_case(name);
        let mut found = self.headers.iter().filter(|(known, _)| is_known(known));
        let value = found.next().map(|(_, value)| value.as_str());
        assert_eq!(found.next(), None, "duplicate header {name}");
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}
