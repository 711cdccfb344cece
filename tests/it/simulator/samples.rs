//! The requests of Microsoft's samples for Scheduled Events, with the headers and bodies that their HTTP libraries
//! send, beside a running exporter.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
};

use azure_scheduled_events_exporter::simulator::Scenario;
use serde_json::Value;

use super::{EVENTS, TestServer, linux_vm, parse};
use crate::support::{
    ask_until,
    process::{Process, json},
};

/// How a sample reads and approves.
struct Sample {
    name: &'static str,
    target: &'static str,
    headers: &'static [&'static str],
    /// Only of a GET, and only of a POST.
    more_headers: [&'static [&'static str]; 2],
    /// `FIRST` and `SECOND` stand for the ids of the pending events, `INCARNATION` for that of the document.
    approval: &'static str,
}

const URLLIB: &[&str] = &[
    "Accept-Encoding: identity",
    "User-Agent: Python-urllib/3.11",
    "Connection: close",
];
const METADATA: &str = "Metadata: true";
const POWERSHELL: &[&str] = &[
    METADATA,
    "User-Agent: Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1",
];
const FORM: &str = "Content-Type: application/x-www-form-urlencoded";
const NEWEST: &str = "/metadata/scheduledevents?api-version=2020-07-01";
const PREVIEW: &str = "/metadata/scheduledevents?api-version=2017-03-01";
const ONE: &str = r#"{"StartRequests": [{"EventId": "FIRST"}]}"#;

/// The samples of the documentation, with the mock server's listener; the tool for central logging; the samples of the
/// repository for VMs outside a virtual network.
const SAMPLES: [Sample; 8] = [
    Sample {
        name: "Bash sample",
        target: NEWEST,
        headers: &["User-Agent: curl/8.5.0", "Accept: */*", "Metadata:true"],
        more_headers: [&[], &[FORM]],
        approval: ONE,
    },
    Sample {
        name: "PowerShell sample",
        target: NEWEST,
        headers: POWERSHELL,
        more_headers: [&[], &[FORM]],
        approval: ONE,
    },
    // "You can confirm multiple events in a single request if needed."
    Sample {
        name: "Python sample, several events",
        target: NEWEST,
        headers: &["User-Agent: python-requests/2.34.2", METADATA],
        more_headers: [&[], &[]],
        approval: r#"{"StartRequests": [{"EventId": "FIRST"}, {"EventId": "SECOND"}]}"#,
    },
    Sample {
        name: "Listener.py",
        target: NEWEST,
        headers: &[
            "User-Agent: python-requests/2.34.2",
            "Accept-Encoding: gzip, deflate",
            "Accept: */*",
            "Connection: keep-alive",
            METADATA,
        ],
        more_headers: [&[], &[]],
        approval: ONE,
    },
    Sample {
        name: "scheduledEventsInteractiveTool.py",
        target: PREVIEW,
        headers: URLLIB,
        more_headers: [&[METADATA], &[FORM]],
        approval: r#"{"StartRequests":[{"EventId":"FIRST"}]}"#,
    },
    Sample {
        name: "scheduled_events_sample.py",
        target: PREVIEW,
        headers: URLLIB,
        more_headers: [&[METADATA], &[FORM, METADATA]],
        approval: r#"{"DocumentIncarnation": INCARNATION, "StartRequests": [{"EventId": "FIRST"}]}"#,
    },
    Sample {
        name: "ScheduledEventsSample.ps1",
        target: PREVIEW,
        headers: POWERSHELL,
        more_headers: [&[], &[FORM]],
        approval: "{\r\n    \"DocumentIncarnation\":  INCARNATION,\r\n    \"StartRequests\":  [\r\n                          {\r\n                              \"EventId\":  \"FIRST\"\r\n                          }\r\n                      ]\r\n}",
    },
    // Its approval has no Metadata header, which 2017-08-01 asks for.
    Sample {
        name: UNAPPROVED,
        target: "/metadata/scheduledEvents?api-version=2017-08-01",
        headers: &[],
        more_headers: [&[METADATA], &["Content-Type: application/json"]],
        approval: r#"{"DocumentIncarnation":"INCARNATION","StartRequests":[{"EventId":"FIRST"}]}"#,
    },
];
const UNAPPROVED: &str = "ScheduledEventsClient.cs";

/// Sends one request as it is written here; returns status and body.
fn exchange(server: &TestServer, line: &str, headers: [&[&str]; 2], body: &str) -> (u16, String) {
    let mut request = format!("{line} HTTP/1.1\r\nHost: {}\r\n", server.host());
    for header in headers.concat() {
        write!(request, "{header}\r\n").unwrap();
    }
    if !body.is_empty() {
        write!(request, "Content-Length: {}\r\n", body.len()).unwrap();
    }
    let mut stream = server.connect();
    write!(stream, "{request}\r\n{body}").unwrap();
    // The connection may be kept alive, so the length says where the response ends.
    let mut answer = Vec::new();
    loop {
        if let Some(response) = parse(&answer)
            && response.header("content-length") == Some(&response.body.len().to_string())
        {
            return (response.status, response.text().to_owned());
        }
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "no complete response: {}", answer.escape_ascii());
        answer.extend_from_slice(&buffer[..count]);
    }
}

/// Two restarts that wait for an approval.
const RESTARTS: &str = r#"{"events": [
    {"event_type": "Reboot", "event_source": "User", "notice": "15m"},
    {"event_type": "Redeploy", "event_source": "User", "notice": "15m"}
]}"#;

/// Waits until both events in the exporter's JSON are as expected.
async fn until_events(exporter: &str, what: &str, is_expected: impl Fn(&Value) -> bool) {
    ask_until(
        what,
        || json(exporter, "/api/v1/events"),
        |body| {
            let events = body["events"].as_array();
            events.is_some_and(|it| it.len() == 2 && it.iter().all(&is_expected))
        },
    )
    .await;
}

async fn runs_beside_the_exporter(sample: &Sample) {
    let name = sample.name;
    let scenario = Scenario::parse("restarts", "restarts", RESTARTS.as_bytes()).unwrap();
    let server = TestServer::of_vm(linux_vm(Some("web_0")), vec![scenario], 1.0);
    let url = format!("--imds.url=http://{}", server.host());
    let listen = "--web.listen-address=127.0.0.1:0";
    let mut exporter = Process::start([listen, "--imds.poll-interval=200ms", &url]);
    let address = exporter.address().await;
    until_events(&address, name, |event| event["EventStatus"] == "Scheduled").await;

    let [get_headers, post_headers] = sample.more_headers.map(|more| [sample.headers, more]);
    let get = format!("GET {}", sample.target);
    let (status, document) = exchange(&server, &get, get_headers, "");
    assert_eq!(status, 200, "{name}: {document}");
    let document: Value = serde_json::from_str(&document).unwrap();
    let id = |index: usize| document["Events"][index]["EventId"].as_str().unwrap();
    let approval = sample
        .approval
        .replace("FIRST", id(0))
        .replace("SECOND", id(1))
        .replace("INCARNATION", &document["DocumentIncarnation"].to_string());
    let post = format!("POST {}", sample.target);
    let (status, answer) = exchange(&server, &post, post_headers, &approval);
    let expected = if name == UNAPPROVED { 400 } else { 200 };
    assert_eq!(status, expected, "{name}: {answer}");

    let is_approved = |id: &str| status == 200 && approval.contains(id);
    for event in server.get(EVENTS).json()["Events"].as_array().unwrap() {
        let is_started = event["EventStatus"] == "Started";
        let id = event["EventId"].as_str().unwrap();
        assert_eq!(is_started, is_approved(id), "{name}: {event}");
    }
    until_events(&address, name, |event| {
        let is_approved = is_approved(event["EventId"].as_str().unwrap());
        let status = if is_approved { "Started" } else { "Scheduled" };
        event["EventStatus"] == status && event["approved_elsewhere_at"].is_string() == is_approved
    })
    .await;
}

#[tokio::test]
async fn microsofts_samples_read_and_approve_events_and_the_exporter_beside_them_sees_it() {
    for sample in &SAMPLES {
        runs_beside_the_exporter(sample).await;
    }
}
