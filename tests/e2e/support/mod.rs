//! What every end-to-end test needs: programs, daemons, ports, deadlines, HTTP.

mod daemon;
pub(crate) mod exporter;
mod exposition;
pub(crate) mod paging;
mod programs;
pub(crate) mod webhook;

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

pub(crate) use daemon::Daemon;
pub(crate) use exposition::{Sample, Series, samples};
pub(crate) use programs::{Part, cached, node_script, system};

/// Generous: a deadline only bounds a failure, and the machine may be busy with other builds.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// A port on loopback that nothing listens on, never the same twice in this process.
///
/// Taken from below the ephemeral range, so that no outgoing connection can grab it meanwhile.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 400).unwrap() * 25;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (start + step) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Asks again until the answer is there; fails with `what` after [`DEADLINE`].
pub(crate) async fn wait_until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    wait_until_for(DEADLINE, what, async || ask().await.ok_or_else(String::new)).await
}

/// [`wait_until`] with a deadline of one's own, and the last reason why the answer was not there.
pub(crate) async fn wait_until_for<T>(
    deadline: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let began = Instant::now();
    loop {
        let reason = match ask().await {
            Ok(answer) => return answer,
            Err(reason) => reason,
        };
        assert!(
            began.elapsed() < deadline,
            "not within {deadline:?}: {what}\n{reason}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A client that talks plain HTTP to loopback and nothing else.
pub(crate) fn client() -> reqwest::Client {
    // Another test of this process may have installed the same provider already.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .timeout(Duration::from_secs(10))
        .build()
        .expect("an HTTP client")
}

/// The body of a 200, or nothing.
pub(crate) async fn get(client: &reqwest::Client, url: &str) -> Option<String> {
    let answer = client
        .get(url)
        .header("accept", "text/plain; version=0.0.4")
        .send()
        .await
        .ok()?;
    if answer.status() != reqwest::StatusCode::OK {
        return None;
    }
    answer.text().await.ok()
}
