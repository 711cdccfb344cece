//! The requests of Microsoft's samples for Scheduled Events, with the headers and bodies that their HTTP libraries
//! send.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
};

use super::{TestServer, parse};

/// How a sample reads and approves.
struct Sample {
    name: &'static str,
    target: &'static str,
    get_headers: &'static [&'static str],
    post_headers: &'static [&'static str],
    /// Place of the event id, and of the incarnation if the sample sends it.
    approval: &'static str,
    approval_status: u16,
}

const URLLIB: [&str; 3] = [
    "Accept-Encoding: identity",
    "User-Agent: Python-urllib/3.11",
    "Connection: close",
];

/// The mock server's listener, the same in the documentation; the tool for central logging; the samples of the
/// repository for VMs outside a virtual network.
const SAMPLES: [Sample; 5] = [
    Sample {
        name: "Listener.py",
        target: "/metadata/scheduledevents?api-version=2020-07-01",
        get_headers: &[
            "User-Agent: python-requests/2.34.2",
            "Accept-Encoding: gzip, deflate",
            "Accept: */*",
            "Connection: keep-alive",
            "Metadata: true",
        ],
        post_headers: &[
            "User-Agent: python-requests/2.34.2",
            "Accept-Encoding: gzip, deflate",
            "Accept: */*",
            "Connection: keep-alive",
            "Metadata: true",
        ],
        approval: r#"{"StartRequests": [{"EventId": "ID"}]}"#,
        approval_status: 200,
    },
    Sample {
        name: "scheduledEventsInteractiveTool.py",
        target: "/metadata/scheduledevents?api-version=2017-03-01",
        get_headers: &[URLLIB[0], URLLIB[1], URLLIB[2], "Metadata: true"],
        post_headers: &[
            URLLIB[0],
            "Content-Type: application/x-www-form-urlencoded",
            URLLIB[1],
            URLLIB[2],
        ],
        approval: r#"{"StartRequests":[{"EventId":"ID"}]}"#,
        approval_status: 200,
    },
    Sample {
        name: "scheduled_events_sample.py",
        target: "/metadata/scheduledevents?api-version=2017-03-01",
        get_headers: &[URLLIB[0], URLLIB[1], URLLIB[2], "Metadata: true"],
        post_headers: &[
            URLLIB[0],
            "Content-Type: application/x-www-form-urlencoded",
            URLLIB[1],
            URLLIB[2],
            "Metadata: true",
        ],
        approval: r#"{"DocumentIncarnation": INCARNATION, "StartRequests": [{"EventId": "ID"}]}"#,
        approval_status: 200,
    },
    Sample {
        name: "ScheduledEventsSample.ps1",
        target: "/metadata/scheduledevents?api-version=2017-03-01",
        get_headers: &[
            "Metadata: true",
            "User-Agent: Mozilla/5.0 WindowsPowerShell/5.1",
        ],
        post_headers: &[
            "Metadata: true",
            "User-Agent: Mozilla/5.0 WindowsPowerShell/5.1",
            "Content-Type: application/x-www-form-urlencoded",
        ],
        approval: "{\r\n    \"DocumentIncarnation\":  INCARNATION,\r\n    \"StartRequests\":  [\r\n                          {\r\n                              \"EventId\":  \"ID\"\r\n                          }\r\n                      ]\r\n}",
        approval_status: 200,
    },
    // Its approval has no Metadata header, which 2017-08-01 asks for.
    Sample {
        name: "ScheduledEventsClient.cs",
        target: "/metadata/scheduledEvents?api-version=2017-08-01",
        get_headers: &["Metadata: true"],
        post_headers: &["Content-Type: application/json"],
        approval: r#"{"DocumentIncarnation":"INCARNATION","StartRequests":[{"EventId":"ID"}]}"#,
        approval_status: 400,
    },
];

/// Sends one request as it is written here; returns status and body.
fn exchange(server: &TestServer, line: &str, headers: &[&str], body: &str) -> (u16, String) {
    let mut request = format!("{line} HTTP/1.1\r\nHost: {}\r\n", server.host());
    for header in headers {
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

#[test]
fn microsofts_samples_read_and_approve_events_of_the_simulator() {
    for sample in SAMPLES {
        let name = sample.name;
        let server = TestServer::start(&["user-reboot"], 1.0);
        let get = format!("GET {}", sample.target);
        let read = || {
            let (status, body) = exchange(&server, &get, sample.get_headers, "");
            assert_eq!(status, 200, "{name}: {body}");
            serde_json::from_str::<serde_json::Value>(&body).unwrap()
        };
        let before = read();
        assert_eq!(before["Events"][0]["EventStatus"], "Scheduled", "{name}");
        let approval = sample
            .approval
            .replace("ID", before["Events"][0]["EventId"].as_str().unwrap())
            .replace("INCARNATION", &before["DocumentIncarnation"].to_string());
        let post = format!("POST {}", sample.target);
        let (status, body) = exchange(&server, &post, sample.post_headers, &approval);
        assert_eq!(status, sample.approval_status, "{name}: {body}");
        let expected = if status == 200 {
            "Started"
        } else {
            "Scheduled"
        };
        assert_eq!(read()["Events"][0]["EventStatus"], expected, "{name}");
    }
}
