//! Errors at start, and what the log says.

use super::{
    NOTHING, Protected, TLS,
    cases::{cases, files},
    hash, user,
};
use crate::{
    support::{FakeImds, Pki, Reply, process::Process},
    tidy::documents::code_blocks,
};

/// The one line of an exit with the code for usage errors.
async fn refused(arguments: &[&str]) -> String {
    let any_port = ["--web.listen-address=127.0.0.1:0"];
    let ended = Process::start(arguments.iter().chain(&any_port))
        .end()
        .await;
    assert_eq!(ended.code, Some(64), "{ended:?}");
    assert_eq!(ended.log.lines().count(), 1, "{}", ended.log);
    assert!(
        ended.log.starts_with("error: --web.config.file: "),
        "{}",
        ended.log
    );
    ended.log
}

#[tokio::test]
async fn an_invalid_file_ends_the_start_with_one_line_that_names_the_file_and_the_setting() {
    let pki = files();
    let path = format!("--web.config.file={}", pki.path("web.yml"));
    let mut problems = Vec::new();
    for case in cases() {
        let Some(error) = case.error else { continue };
        pki.write("web.yml", &case.text(&pki));
        let line = refused(&[&path]).await;
        let is_safe = !line.trim_end().contains(char::is_control)
            && !line.contains("secret")
            && !line.contains("$04$");
        let (_, problem) = line.split_once("web.yml\"").expect(&line);
        if !is_safe || !error.split(" | ").all(|words| problem.contains(words)) {
            problems.push(format!("{}\n{line}\n{error}", case.config));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[expect(clippy::disallowed_methods, reason = "writes what is not text")]
#[tokio::test]
async fn a_file_that_cannot_be_read_ends_the_start_with_one_line() {
    let pki = Pki::new();
    let missing = format!("--web.config.file={}", pki.path("gone.yml"));
    let line = refused(&[&missing]).await;
    assert!(line.contains("gone.yml\": cannot be read"), "{line}");
    let directory = format!("--web.config.file={}", pki.path(""));
    let line = refused(&["demo", &directory]).await;
    assert!(line.contains("is not a regular file"), "{line}");
    std::fs::write(pki.path("binary.yml"), b"a: \xff").unwrap();
    let binary = format!("--web.config.file={}", pki.path("binary.yml"));
    let line = refused(&[&binary]).await;
    assert!(line.contains("binary.yml\": is not UTF-8"), "{line}");
}

#[tokio::test]
async fn every_file_that_a_page_shows_is_valid() {
    for block in code_blocks(&["tls_server_config:", "basic_auth_users:"]) {
        let (_, config) = block.split_once('\n').unwrap();
        let exporter = Protected::start(&config.replace("HASH", &hash(4, "a"))).await;
        exporter.has_errors(0);
        assert_eq!(exporter.logged("has no effect"), 0, "{block}");
    }
}

#[tokio::test]
async fn settings_without_effect_are_logged_at_start() {
    let config = format!(
        "{TLS}http_server_config: {{http2: yes}}\nrate_limit: {{interval: 1h, burst: 1}}\n{}",
        user("bob", 4, "a")
    );
    let mut exporter = Protected::start(&config).await;
    for words in ["HTTP/1.1", "requests are not counted"] {
        let line = exporter.process.says(words).await;
        assert!(
            line.contains("level=warn") && line.contains("has no effect"),
            "{line}"
        );
        assert_eq!(exporter.logged(words), 1);
    }
    let line = exporter.process.says("listening").await;
    assert!(
        line.contains("tls=true") && line.contains("password=true"),
        "{line}"
    );
}

/// The threads exist from the start, so that neither a request nor a user who is added needs one.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn neither_a_handshake_nor_a_password_starts_a_thread() {
    let exporter = Protected::start(TLS).await;
    let threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", exporter.process.pid()));
        tasks.unwrap().count()
    };
    let before = threads();
    assert_eq!(exporter.tls().status("/metrics", &[]).await, 200);
    exporter
        .pki
        .write("web.yml", &format!("{TLS}{}", user("bob", 4, "a")));
    let right = super::basic("bob", "a");
    assert_eq!(exporter.tls().status("/metrics", &[&right]).await, 200);
    assert_eq!(exporter.tls().status("/metrics", &[]).await, 401);
    assert_eq!(threads(), before);
    let imds = FakeImds::standing(Reply::ok(NOTHING)).await;
    let url = format!("--imds.url={}", imds.base());
    let mut without = Process::start(["--web.listen-address=127.0.0.1:0", &url]);
    without.says("polling started").await;
    let tasks = std::fs::read_dir(format!("/proc/{}/task", without.pid()));
    assert_eq!(
        tasks.unwrap().count(),
        before - 2,
        "two threads, only with the flag"
    );
}
