//! The page of the simulator.

use azure_scheduled_events_exporter::simulator::Scenario;

use super::TestServer;

#[test]
fn page_shows_events_faults_and_a_button_for_each_scenario() {
    let server = TestServer::start(&["live-migration", "fault-incarnation-reset"], 1.0);
    server
        .send(
            "POST",
            "/simulator/start",
            &[],
            r#"{"scenario": {"faults": [{"fault": "empty-body", "for": "1h"}]}}"#,
        )
        .unwrap();
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
    ] {
        assert!(text.contains(shown), "{shown} is not on the page");
    }
}

#[test]
fn page_loads_only_its_own_style_sheet() {
    let server = TestServer::start(&[], 1.0);
    let page = server.get("/");
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'self'; form-action 'self'"),
        "{policy}"
    );
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let text = page.text();
    assert!(
        !text.contains("<script") && !text.contains("style=") && !text.contains("://"),
        "{text}"
    );
    let style = server.get("/simulator/page.css");
    assert_eq!(
        (style.status, style.header("content-type")),
        (200, Some("text/css; charset=utf-8"))
    );
    assert!(!style.text().contains("url(") && !style.text().contains("@import"));
}

#[test]
fn values_of_a_scenario_are_escaped() {
    let text = r#"{"description": "</p><script>1</script>", "repeat_every": "1h", "events": [{"event_type": "<img src=x>",
        "event_source": "\"'&", "description": "<b>bold</b>", "notice": "1m", "resources": ["<i>"]}]}"#;
    let scenario = Scenario::parse("<u>", "test", text.as_bytes()).unwrap();
    let page = TestServer::with(vec![scenario], 1.0).get("/");
    let text = page.text();
    for raw in ["<script", "<img", "<b>", "<i>", "<u>", "\"'&"] {
        assert!(!text.contains(raw), "{raw} is on the page unescaped");
    }
    assert!(text.contains("&lt;img src=x&gt;") && text.contains("by &quot;'&amp;,"));
}
