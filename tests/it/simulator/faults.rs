//! Faults, as a client sees them over a socket.

use std::{
    io::{Read, Write},
    time::Duration,
};

use azure_scheduled_events_exporter::simulator::Scenario;

use super::{EVENTS, TestServer};
use crate::support::{DEADLINE, wait_until};

#[test]
fn reset_closes_the_connection_without_a_response() {
    let server = TestServer::start(&["fault-reset"], 1.0);
    assert!(
        server
            .send("GET", EVENTS, &[("Metadata", "true")], "")
            .is_none()
    );
}

#[test]
fn slow_response_has_the_document_of_the_time_at_which_it_is_sent() {
    let text = br#"{"faults": [{"fault": "slow", "for": "300ms"}],
        "events": [{"at": "200ms", "event_type": "Freeze", "notice": "1h"}]}"#;
    let scenario = Scenario::parse("slow", "here", text).unwrap();
    let server = TestServer::with(vec![scenario], 1.0);
    let compute = server.get("/metadata/instance/compute?api-version=2021-02-01");
    assert_eq!(compute.status, 200, "only the events are slow");
    let delayed = server.get(EVENTS);
    assert_eq!(delayed.status, 200);
    assert_eq!(delayed.json()["Events"][0]["EventType"], "Freeze");
    let counts = server.get("/simulator/state").json()["requests"].clone();
    assert_eq!(
        (&counts["documents"], &counts["unanswered"]),
        (&1.into(), &0.into())
    );
}

#[tokio::test]
async fn hang_never_responds_and_does_not_block_other_requests() {
    let server = TestServer::start(&["fault-hang"], 1.0);
    let mut waiting = server.connect();
    write!(
        waiting,
        "GET {EVENTS} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n"
    )
    .unwrap();
    // The request has arrived when it is counted; the state endpoint still responds.
    wait_until(DEADLINE, "the request is counted", || {
        let counts = &server.get("/simulator/state").json()["requests"];
        (counts["unanswered"] == 1).then_some(())
    })
    .await;
    waiting
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let read = waiting.read(&mut [0; 1]);
    assert!(read.is_err(), "{read:?}");
}

#[test]
fn metadata_security_protocol_refuses_with_an_empty_body_and_closes_the_connection() {
    for status in [403, 421, 502, 503] {
        let server = TestServer::start(&[&format!("fault-msp-{status}"), "user-reboot"], 1.0);
        for target in [EVENTS, "/metadata/instance?api-version=2021-02-01"] {
            let mut stream = server.connect();
            write!(
                stream,
                "GET {target} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n"
            )
            .unwrap();
            let mut response = String::new();
            // Ends because the server closes the connection.
            stream.read_to_string(&mut response).unwrap();
            let response = response.to_ascii_lowercase();
            assert!(
                response.starts_with(&format!("http/1.1 {status} ")),
                "{response}"
            );
            assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
            assert!(
                response.ends_with("\r\n\r\n"),
                "the body is empty: {response}"
            );
        }
    }
}
