//! `--vm.name` and the name in instance metadata.

use serde_json::{Value, json};

use super::RESTART;
use crate::support::{
    FakeImds, Reply,
    process::{Process, page},
};

#[tokio::test]
async fn log_page_and_json_name_both_names() {
    let imds = FakeImds::standing(Reply::ok(RESTART)).await;
    let mut exporter = Process::start([
        "--web.listen-address=127.0.0.1:0",
        "--imds.poll-interval=200ms",
        "--vm.name=web_1",
        "--approve.user-events",
        "--approve.delay=0s",
        &format!("--imds.url={}", imds.base()),
    ]);
    let address = exporter.address().await;
    let line = exporter.says("VM name contradicts instance metadata").await;
    for words in [
        "level=warn",
        "vm_name=web_1",
        "metadata_name=web_0",
        "--vm.name",
    ] {
        assert!(line.contains(words), "{line}");
    }
    imds.until_requests(3).await;
    assert_eq!(imds.posts(), 0);
    let shown = page(&address, "/").await.unwrap();
    let expected =
        "--vm.name is <code>web_1</code>, but instance metadata name this VM <code>web_0</code>.";
    assert!(shown.contains(expected), "{shown}");
    let json = page(&address, "/api/v1/events").await.unwrap();
    let vm = serde_json::from_str::<Value>(&json).unwrap()["vm"].clone();
    assert_eq!(
        (&vm["name"], &vm["metadata_name"], &vm["name_mismatch"]),
        (&json!("web_1"), &json!("web_0"), &json!(true))
    );
    let url = format!("--url=http://{address}");
    let mut watch = Process::start(["watch", &url]);
    watch
        .says("differs from the name in instance metadata")
        .await;
    let log = exporter.log();
    assert_eq!(
        log.matches("contradicts instance metadata").count(),
        1,
        "{log}"
    );
}
