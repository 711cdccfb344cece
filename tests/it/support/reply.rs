//! The responses of a fake: any bytes at any rate, with any end of the connection.

use std::{fmt::Write as _, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
};

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    before: Duration,
    /// Nothing is sent before the value is true, or the other side closes the connection.
    gate: Option<watch::Receiver<bool>>,
    bytes: Vec<u8>,
    /// Pieces of this many bytes, with a delay between them.
    drip: Option<(usize, Duration)>,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The connection stays open for the next request.
    KeepAlive,
    /// FIN.
    Close,
    /// RST.
    Reset,
    /// No more bytes until the client closes the connection.
    Hang,
    /// The same bytes again, until the client closes the connection.
    Repeat,
}

/// Holds replies back until it is open.
#[derive(Debug)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }
}

impl Reply {
    /// These bytes, and the connection stays open.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            before: Duration::ZERO,
            gate: None,
            bytes: bytes.into(),
            drip: None,
            end: End::KeepAlive,
        }
    }

    /// A complete response: status such as `404 Not Found`, headers, body with its length.
    pub(crate) fn http(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = head(status, headers);
        write!(bytes, "Content-Length: {}\r\n\r\n", body.len()).unwrap();
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(body);
        Self::raw(bytes)
    }

    /// A 200 with a JSON body.
    pub(crate) fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::http(
            "200 OK",
            &[("Content-Type", "application/json; charset=utf-8")],
            body,
        )
    }

    /// A status with an error body of IMDS.
    pub(crate) fn error(status: &str, text: &str) -> Self {
        Self::http(
            status,
            &[("Content-Type", "application/json; charset=utf-8")],
            serde_json::json!({ "error": text }).to_string(),
        )
    }

    /// A 200 in chunks.
    pub(crate) fn chunked<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut bytes = head("200 OK", &[("Transfer-Encoding", "chunked")]).into_bytes();
        bytes.extend_from_slice(b"\r\n");
        for part in parts {
            bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
        Self::raw(bytes)
    }

    /// Sent once the gate is open.
    pub(crate) fn gated(mut self) -> (Self, Gate) {
        let (open, gate) = watch::channel(false);
        self.gate = Some(gate);
        (self, Gate(open))
    }

    pub(super) fn is_ok(&self) -> bool {
        self.bytes.starts_with(b"HTTP/1.1 200 ")
    }

    /// No response; the connection stays open.
    pub(crate) fn silence() -> Self {
        Self::raw([]).then_hang()
    }

    /// Without the last bytes.
    pub(crate) fn without_last(mut self, count: usize) -> Self {
        self.bytes.truncate(self.bytes.len() - count);
        self
    }

    /// Sent after a delay.
    pub(crate) fn after(mut self, before: Duration) -> Self {
        self.before = before;
        self
    }

    /// Sent in pieces of this many bytes.
    pub(crate) fn in_pieces(mut self, size: usize, pause: Duration) -> Self {
        self.drip = Some((size, pause));
        self
    }

    /// Then FIN.
    pub(crate) fn then_close(mut self) -> Self {
        self.end = End::Close;
        self
    }

    /// Then RST.
    pub(crate) fn then_reset(mut self) -> Self {
        self.end = End::Reset;
        self
    }

    /// Then nothing.
    pub(crate) fn then_hang(mut self) -> Self {
        self.end = End::Hang;
        self
    }

    /// Then the same again, without end.
    pub(crate) fn then_repeat(mut self) -> Self {
        self.end = End::Repeat;
        self
    }

    /// Sends it; returns whether the connection stays open for another request.
    pub(super) async fn send(&self, stream: &mut TcpStream) -> bool {
        tokio::time::sleep(self.before).await;
        if let Some(mut gate) = self.gate.clone() {
            let mut byte = [0];
            tokio::select! {
                opened = gate.wait_for(|open| *open) => if opened.is_err() { return false },
                _ = stream.peek(&mut byte) => return false,
            }
        }
        let (size, pause) = self.drip.unwrap_or((usize::MAX, Duration::ZERO));
        for piece in self.bytes.chunks(size) {
            if stream.write_all(piece).await.is_err() {
                return false;
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        match self.end {
            End::KeepAlive => true,
            End::Close => false,
            End::Reset => {
                stream.set_zero_linger().unwrap();
                false
            }
            End::Repeat => {
                while stream.write_all(&self.bytes).await.is_ok() {}
                false
            }
            End::Hang => {
                let mut ignored = [0; 1024];
                while matches!(stream.read(&mut ignored).await, Ok(count) if count > 0) {}
                false
            }
        }
    }
}

fn head(status: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("HTTP/1.1 {status}\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head
}
