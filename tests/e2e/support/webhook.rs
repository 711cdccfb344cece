//! The person at the end: a webhook that writes down what Alertmanager sends.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// One notification, as a person reads it.
#[derive(Debug, Clone)]
pub(crate) struct Notification {
    /// Seconds after the webhook was there.
    pub(crate) at: f64,
    /// The receiver's name in Alertmanager's configuration.
    pub(crate) receiver: String,
    /// `firing` or `resolved`.
    pub(crate) status: String,
    /// The name of the alert.
    pub(crate) name: String,
    /// Empty for what is no event.
    pub(crate) event_id: String,
    /// What it says.
    pub(crate) description: String,
}

/// Listens until it is dropped.
pub(crate) struct Webhook {
    pub(crate) address: String,
    began: Instant,
    taken: Arc<Mutex<Vec<Notification>>>,
    accepting: JoinHandle<()>,
}

impl Webhook {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let began = Instant::now();
        let shared = Arc::clone(&taken);
        let accepting = tokio::spawn(async move {
            loop {
                let (stream, _peer) = listener.accept().await.unwrap();
                tokio::spawn(converse(stream, began, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            began,
            taken,
            accepting,
        }
    }

    /// Seconds since it is there.
    pub(crate) fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Everything so far.
    pub(crate) fn taken(&self) -> Vec<Notification> {
        self.taken.lock().unwrap().clone()
    }

    /// What was told of events, by status.
    pub(crate) fn of_events(&self, status: &str) -> Vec<Notification> {
        let mut taken = self.taken();
        taken.retain(|one| !one.event_id.is_empty() && one.status == status);
        taken
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.accepting.abort();
        if std::thread::panicking() {
            eprintln!("---- a person would have read ----");
            for one in self.taken() {
                let Notification {
                    at,
                    receiver,
                    status,
                    name,
                    ..
                } = &one;
                eprintln!(
                    "after {at:.1} s, {receiver}: {status} {name}\n{}",
                    one.description
                );
            }
        }
    }
}

async fn converse(mut stream: TcpStream, began: Instant, taken: Arc<Mutex<Vec<Notification>>>) {
    let mut read = Vec::new();
    while let Some(body) = body(&mut stream, &mut read).await {
        let at = began.elapsed().as_secs_f64();
        let message: Value = serde_json::from_slice(&body).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let alerts = message["alerts"].as_array().unwrap().iter();
        taken
            .lock()
            .unwrap()
            .extend(alerts.map(|alert| Notification {
                at,
                receiver: text(&message["receiver"]),
                status: text(&alert["status"]),
                name: text(&alert["labels"]["alertname"]),
                event_id: text(&alert["labels"]["event_id"]),
                description: text(&alert["annotations"]["description"]),
            }));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// The body of the next request.
async fn body(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<Vec<u8>> {
    let head = loop {
        if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, read).await?;
    };
    let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.unwrap().parse().unwrap();
    while read.len() < head + length {
        more(stream, read).await?;
    }
    let rest = read.split_off(head + length);
    let body = read.split_off(head);
    *read = rest;
    Some(body)
}

async fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<()> {
    matches!(stream.read_buf(read).await, Ok(count) if count > 0).then_some(())
}
