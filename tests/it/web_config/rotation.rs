//! Files that change while the exporter runs.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::task::JoinSet;

use super::{
    Protected, SERVER_NAMES, TLS, basic, client,
    client::{Client, Tls},
    hash, user,
};
use crate::support::{DEADLINE, Pki, wait_until};

const PARALLEL: usize = 4;

/// Overwrites a file as an editor does: it is empty for a moment.
#[expect(clippy::disallowed_methods, reason = "not atomic on purpose")]
fn overwrite(pki: &Pki, name: &str, text: &str) {
    fs::write(Path::new(&pki.path(name)), text).unwrap();
}

/// Scrapes without a pause, each on a new connection.
struct Scrapes {
    is_stopped: Arc<AtomicBool>,
    succeeded: Arc<AtomicUsize>,
    running: JoinSet<Vec<String>>,
}

impl Scrapes {
    fn start(client: &Client, header: &str) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let succeeded = Arc::new(AtomicUsize::new(0));
        let mut running = JoinSet::new();
        for _ in 0..PARALLEL {
            let (client, header) = (client.clone(), header.to_owned());
            let (stopped, counted) = (Arc::clone(&is_stopped), Arc::clone(&succeeded));
            running.spawn(async move {
                let mut problems = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    match client.get("/metrics", &[&header]).await {
                        Ok(response) if response.status == 200 => {
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                        other => problems.push(format!("{other:?}")),
                    }
                }
                problems
            });
        }
        Self {
            is_stopped,
            succeeded,
            running,
        }
    }

    /// Waits for more successful scrapes.
    async fn more(&self, count: usize) {
        let before = self.succeeded.load(Ordering::Relaxed);
        wait_until(DEADLINE, "scrapes succeed", || {
            let now = self.succeeded.load(Ordering::Relaxed);
            (now >= before + count).then_some(())
        })
        .await;
    }

    /// What went wrong.
    async fn stop(self) -> Vec<String> {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.running.join_all().await.concat()
    }
}

#[tokio::test]
async fn users_rotate_under_scrapes_without_a_failed_one() {
    let with_users = |passwords: &[&str]| {
        let users: Vec<_> = passwords
            .iter()
            .map(|password| format!("  {password}: {}\n", hash(4, password)))
            .collect();
        let users = users.concat();
        format!("{TLS}basic_auth_users:\n{users}")
    };
    let exporter = Protected::start(&with_users(&["first"])).await;
    let scrapes = Scrapes::start(&exporter.tls(), &basic("first", "first"));
    scrapes.more(20).await;
    for round in 0..10 {
        let others = [format!("other{round}"), "first".to_owned()];
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        exporter.pki.write("web.yml", &with_users(&others));
        scrapes.more(5).await;
        let added = basic(others[0], others[0]);
        assert_eq!(exporter.tls().status("/metrics", &[&added]).await, 200);
    }
    let problems = scrapes.stop().await;
    assert!(problems.is_empty(), "{problems:?}");
    exporter.has_errors(0);
    let removed = basic("other0", "other0");
    assert_eq!(exporter.tls().status("/metrics", &[&removed]).await, 401);
}

#[tokio::test]
async fn a_new_certificate_is_shown_by_the_next_handshake() {
    let mut exporter = Protected::start(TLS).await;
    let shown = async || {
        let stream = exporter.tls().connect_tls().await.unwrap();
        let (_, session) = stream.get_ref();
        session.peer_certificates().unwrap()[0].to_vec()
    };
    let first = shown().await;
    assert_eq!(shown().await, first);
    exporter.pki.write_certificate("server", &SERVER_NAMES);
    assert_ne!(shown().await, first);
    let changed = "TLS certificates and settings changed";
    exporter.process.says(changed).await;
}

/// Waits for the log line about a failure.
async fn until_refused(exporter: &mut Protected, words: &str) {
    let line = exporter
        .process
        .says("web configuration is not valid")
        .await;
    assert!(
        line.contains("level=error") && line.contains(words),
        "{line}"
    );
}

#[tokio::test]
async fn while_the_files_are_not_valid_connections_are_refused_with_one_log_line() {
    let authority = Pki::new().authority();
    // The file, what it is replaced by, the error, and the status on a connection that exists.
    for (file, content, words, status) in [
        (
            "web.yml",
            Some("a: 'b"),
            "found unexpected end of stream",
            500,
        ),
        ("web.yml", Some(""), "tls_server_config was removed", 500),
        ("web.yml", None, "cannot be read", 500),
        ("server.pem", Some(""), "has no certificate", 200),
        ("server-key.pem", None, "cannot be read", 200),
        ("server.pem", Some(&*authority), "does not belong", 200),
    ] {
        let mut exporter = Protected::start(TLS).await;
        let client = exporter.tls();
        let kept = client.connect_tls().await.unwrap();
        match content {
            Some(text) => exporter.pki.write(file, text),
            None => fs::remove_file(exporter.pki.path(file)).unwrap(),
        }
        for _ in 0..3 {
            assert!(client.get("/metrics", &[]).await.is_err(), "{words}");
        }
        until_refused(&mut exporter, words).await;
        assert!(client.get("/-/healthy", &[]).await.is_err(), "{words}");
        exporter.has_errors(1);
        // A connection that exists does not need the certificate, but the settings.
        let response = client::request(kept, "/metrics", &[]).await.unwrap();
        assert_eq!(response.status, status, "{words}");

        exporter.pki.write("web.yml", TLS);
        exporter.pki.write_certificate("server", &SERVER_NAMES);
        assert_eq!(client.status("/metrics", &[]).await, 200, "{words}");
        exporter
            .process
            .says("web configuration is valid again")
            .await;
        exporter.has_errors(1);
    }
}

#[tokio::test]
async fn without_tls_requests_are_refused_and_probes_answered() {
    let config = user("bob", 4, "a");
    for (text, words) in [
        ("", "basic_auth_users was removed"),
        ("basic_auth_users:\n", "basic_auth_users was removed"),
        ("basic_auth_users: {bob: a}", "is not a bcrypt hash"),
    ] {
        let mut exporter = Protected::start(&config).await;
        let (client, right) = (exporter.plain(), basic("bob", "a"));
        assert_eq!(client.status("/metrics", &[&right]).await, 200);
        overwrite(&exporter.pki, "web.yml", text);
        for headers in [&[][..], &[right.as_str()]] {
            let response = client.get("/metrics", headers).await.unwrap();
            assert_eq!(
                (response.status, response.body.as_str()),
                (500, "Internal Server Error\n")
            );
        }
        until_refused(&mut exporter, words).await;
        assert_eq!(client.status("/-/healthy", &[]).await, 200);
        let serving = client.get("/-/serving", &[]).await.unwrap();
        assert_eq!((serving.status, serving.body.as_str()), (200, "serving\n"));
        overwrite(&exporter.pki, "web.yml", &config);
        assert_eq!(client.status("/metrics", &[&right]).await, 200);
        assert_eq!(client.status("/metrics", &[]).await, 401);
        exporter.has_errors(1);
    }
}

#[tokio::test]
async fn users_who_are_added_and_changed_count_at_once() {
    let exporter = Protected::start("").await;
    let client = exporter.plain();
    assert_eq!(client.status("/metrics", &[]).await, 200);
    let (first, second) = (basic("bob", "first"), basic("bob", "second"));
    for (password, first_status, second_status) in [("first", 200, 401), ("second", 401, 200)] {
        overwrite(&exporter.pki, "web.yml", &user("bob", 4, password));
        assert_eq!(client.status("/metrics", &[]).await, 401);
        assert_eq!(client.status("/metrics", &[&first]).await, first_status);
        assert_eq!(client.status("/metrics", &[&second]).await, second_status);
    }
}

#[tokio::test]
async fn tls_that_is_added_has_no_effect_before_a_restart() {
    let mut exporter = Protected::start("").await;
    overwrite(&exporter.pki, "web.yml", TLS);
    assert_eq!(exporter.plain().status("/metrics", &[]).await, 200);
    let line = exporter.process.says("tls_server_config was added").await;
    assert!(line.contains("level=warn"), "{line}");
}

#[tokio::test]
async fn a_replaced_client_ca_refuses_the_certificates_of_the_old_one() {
    let pki = Pki::new();
    pki.write_certificate("old", &["a"]);
    let config =
        format!("{TLS}  client_ca_file: ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n");
    let exporter = Protected::start_with(pki, &config, &[]).await;
    let client = exporter.tls_with(&Tls {
        certificate: Some((&exporter.pki, "old")),
        ..Tls::default()
    });
    assert_eq!(client.status("/metrics", &[]).await, 200);
    exporter.pki.write("ca.pem", &Pki::new().authority());
    assert!(client.get("/metrics", &[]).await.is_err());
}
