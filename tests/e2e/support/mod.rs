//! What every end-to-end test needs: programs, processes, deadlines, HTTP.

pub(crate) mod alerting;
mod certificates;
mod daemon;
pub(crate) mod exporter;
mod exposition;
#[path = "../../it/support/listening.rs"]
#[expect(dead_code, reason = "the integration tests restart their fakes")]
mod listening;
mod programs;
mod prometheus;
#[path = "../../it/support/reply.rs"]
#[expect(dead_code, reason = "the integration tests have more replies")]
mod reply;
#[path = "../../it/support/request.rs"]
mod request;
pub(crate) mod webhook;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

pub(crate) use certificates::{GRPC_TLS, HTTPS, certificates};
pub(crate) use daemon::Daemon;
pub(crate) use exposition::{Sample, Series, samples};
pub(crate) use listening::{ANY_PORT, Listening};
pub(crate) use programs::{Tool, cached, node_script, run, system};
pub(crate) use prometheus::Prometheus;
pub(crate) use reply::Reply;
pub(crate) use request::Request;

/// Bounds a failure, on a busy machine too.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// Repeats `ask` until it returns a value; fails with `what` after [`DEADLINE`].
pub(crate) async fn wait_until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    wait_until_for(DEADLINE, what, async || ask().await.ok_or_else(String::new)).await
}

/// [`wait_until`] with another deadline; the failure names the last reason.
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

/// A client for plain HTTP on loopback.
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

/// The body of a 200; `None` for any other response.
pub(crate) async fn get(client: &reqwest::Client, url: &str) -> Option<String> {
    let answer = client
        .get(url)
        .header("accept", "text/plain; version=0.0.4, */*;q=0.1")
        .send()
        .await
        .ok()?;
    if answer.status() != reqwest::StatusCode::OK {
        return None;
    }
    answer.text().await.ok()
}

/// The code block of a page that contains `marker`.
pub(crate) fn block(page: &str, marker: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join(page)).unwrap();
    let mut blocks = text.split("\n```").skip(1).step_by(2);
    let block = blocks.find(|block| block.contains(marker));
    let block = block.unwrap_or_else(|| panic!("{page} has no block with {marker:?}"));
    let (_language, code) = block.split_once('\n').unwrap();
    format!("{code}\n")
}
