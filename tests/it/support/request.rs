//! A request that a fake has received.

use tokio::{io::AsyncReadExt as _, net::TcpStream};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// Names in lower case, in the order of the request.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// The body as it was sent, which need not be text.
    pub(super) bytes: Vec<u8>,
}

impl Request {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Reads the next request; `None` when the connection ends before it is complete.
    pub(super) async fn read(stream: &mut TcpStream, left: &mut Vec<u8>) -> Option<Self> {
        let head_length = loop {
            if let Some(at) = left.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            more(stream, left).await?;
        };
        let head = String::from_utf8(left[..head_length].to_vec()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let mut words = lines.next().unwrap().split(' ');
        let mut request = Self {
            method: words.next().unwrap().to_owned(),
            target: words.next().unwrap().to_owned(),
            headers: lines
                .map(|line| line.split_once(": ").unwrap())
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect(),
            body: String::new(),
            bytes: Vec::new(),
        };
        let body_length = request
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        while left.len() < head_length + body_length {
            more(stream, left).await?;
        }
        let rest = left.split_off(head_length + body_length);
        request.bytes = left.split_off(head_length);
        request.body = String::from_utf8_lossy(&request.bytes).into_owned();
        *left = rest;
        Some(request)
    }
}

async fn more(stream: &mut TcpStream, left: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(left).await {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(()),
    }
}
