//! Errors at start, and what the log says.

use super::{NOTHING, Protected, SERVER_NAMES, TLS, user};
use crate::support::{FakeImds, Pki, Reply, process::Process};

async fn error(pki: &Pki, config: &str) -> String {
    pki.write("web.yml", config);
    let path = format!("--web.config.file={}", pki.path("web.yml"));
    refused(&[&path]).await
}

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

/// A file, or what is replaced in one with TLS, => words of the error.
const REFUSED: &str = r#"
    a: 'b => line 1 | found unexpected end of stream
    basic_auth_users: {bob: secret} => basic_auth_users.bob: the value is not a bcrypt hash
    tls_server_config: {cert: a, key_file: b} => tls_server_config.cert cannot be in this file: write it to a file
    server.pem → gone.pem => tls_server_config.cert_file | gone.pem" | cannot be read
    server-key.pem → gone.pem => tls_server_config.key_file | gone.pem" | cannot be read
    server.pem → directory => tls_server_config.cert_file | directory" | is not a regular file
    server.pem → large.pem => tls_server_config.cert_file | large.pem" | is larger than
    server.pem → empty.pem => tls_server_config.cert_file | empty.pem" | has no certificate
    server-key.pem → server.pem => tls_server_config.key_file | server.pem" | has no private key
    server-key.pem → other-key.pem => tls_server_config.key_file | other-key.pem" | does not belong to the certificate
    server-key.pem → encrypted.pem => tls_server_config.key_file | encrypted.pem" | is encrypted with a passphrase
    server.pem → reversed.pem => tls_server_config.cert_file | reversed.pem" | has its certificates in the wrong order
"#;

#[tokio::test]
async fn an_invalid_file_ends_the_start_with_one_line_that_names_the_file_and_the_setting() {
    let pki = Pki::new();
    pki.write_certificate("server", &SERVER_NAMES);
    pki.write_certificate("other", &SERVER_NAMES);
    pki.write("empty.pem", "");
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    pki.write("encrypted.pem", encrypted);
    let server = std::fs::read_to_string(pki.path("server.pem")).unwrap();
    pki.write("reversed.pem", &format!("{}{server}", pki.authority()));
    pki.write("large.pem", &"x".repeat(1024 * 1024 + 1));
    std::fs::create_dir(pki.path("directory")).unwrap();
    let verify = format!(
        "{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: empty.pem\n"
    );
    let no_ca = r#"tls_server_config.client_ca_file | empty.pem" | has no certificate"#;
    let rows = REFUSED.lines().filter(|row| !row.is_empty());
    let rows = rows.map(|row| row.trim_start().split_once(" => ").unwrap());
    for (config, words) in rows.chain([(&*verify, no_ca)]) {
        let config = match config.split_once(" → ") {
            Some((from, to)) => TLS.replace(from, to),
            None => config.to_owned(),
        };
        let line = error(&pki, &format!("\u{feff}{config}")).await;
        for words in words.split(" | ").chain(["web.yml\""]) {
            assert!(line.contains(words), "{config}\n{line}\n{words}");
        }
        assert!(!line.contains("secret"), "{line}");
    }
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
async fn settings_without_effect_are_logged_at_start() {
    let config = format!(
        "{TLS}http_server_config: {{http2: true}}\nrate_limit: {{interval: 1h, burst: 1}}\n{}",
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

#[tokio::test]
async fn the_demo_has_tls_and_passwords_too() {
    let pki = Pki::new();
    pki.write_certificate("server", &SERVER_NAMES);
    pki.write("web.yml", &format!("{TLS}{}", user("bob", 4, "a")));
    let path = format!("--web.config.file={}", pki.path("web.yml"));
    let mut demo = Process::start(["demo", "--web.listen-address=127.0.0.1:0", &path]);
    let line = demo.says("demo started").await;
    assert!(line.contains("page=https://127.0.0.1:"), "{line}");
    let address = demo.address().await;
    let client = super::Client::tls(&address, &pki, &super::Tls::default());
    assert_eq!(client.status("/", &[]).await, 401);
    let page = client.get("/", &[&super::basic("bob", "a")]).await.unwrap();
    assert_eq!(page.status, 200);
    assert!(page.body.contains("</html>"));
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
