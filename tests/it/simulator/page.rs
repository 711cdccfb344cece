//! The page of the simulator.

use azure_scheduled_events_exporter::simulator::Scenario;

use super::TestServer;

#[test]
fn page_shows_events_faults_and_a_button_for_each_scenario() {
    let server = TestServer::start(&["live-migration", "fault-incarnation-reset"], 1.0);
    let fault = r#"{"scenario": {"faults": [{"fault": "empty-body", "for": "1h"}]}}"#;
    server.post("/simulator/start", fault);
    let page = server.get("/");
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    let text = page.text();
    for shown in [
        "web-vmss_0",
        "Freeze",
        "Scheduled",
        "starts in ",
        "scenario live-migration",
        "Speed: 1×",
        "Live Migration",
        "empty-body",
        "value=\"spot-preempt\"",
        "<strong>live-migration</strong>: all its events are announced",
    ] {
        assert!(text.contains(shown), "{shown} is not on the page");
    }
}

#[test]
fn values_of_a_scenario_are_escaped() {
    let text = r#"{"description": "</p><script>1</script>", "repeat_every": "1h", "events": [{"event_type": "<img src=x>",
        "event_source": "\"'&", "description": "<b>bold</b>", "notice": "1m", "resources": ["<i>"]}]}"#;
    let scenario = Scenario::parse("<u>", "test", text.as_bytes()).unwrap();
    let page = TestServer::with(vec![scenario], 1.0).get("/");
    let text = page.text();
    for raw in ["<script>", "<img", "<b>", "<i>", "<u>", "\"'&"] {
        assert!(!text.contains(raw), "{raw} is on the page unescaped");
    }
    assert!(text.contains("&lt;img src=x&gt;") && text.contains("by &quot;'&amp;,"));
}

/// A reload would take the focus from a person who uses a keyboard (WCAG 2.2.1).
#[test]
fn page_never_reloads_by_itself_and_loads_only_its_own_files() {
    let server = TestServer::start(&["microsoft-example"], 1.0);
    let page = server.get("/");
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let text = page.text();
    for absent in ["http-equiv", "<script>", "style=", "://"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    for (path, content_type) in [
        ("/simulator/page.css", "text/css; charset=utf-8"),
        ("/simulator/page.js", "text/javascript; charset=utf-8"),
        ("/simulator/icon.svg", "image/svg+xml"),
    ] {
        assert!(text.contains(&format!("=\"{path}\"")), "{path}: {text}");
        let file = server.get(path);
        assert_eq!(
            (file.status, file.header("content-type")),
            (200, Some(content_type))
        );
    }
    assert!(text.contains("<code>/vm/WestNO_1</code>"), "{text}");
    let (_, live) = text.split_once("data-live").unwrap();
    let (live, _) = live.split_once("<form").unwrap();
    assert!(
        !live.contains("<a ") && !live.contains("<button"),
        "what is replaced has no focus"
    );
}
