//! The limit on bodies that are being sent.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use tokio::task::JoinHandle;

use super::*;
use crate::http::server::activity::RESPONSE_GRACE;

#[test]
fn response_that_is_not_read_is_evicted_when_another_client_waits() {
    let server = start(ServerLimits {
        max_connections: 1,
        ..limits()
    });
    let mut deaf = server.connect();
    send(&mut deaf, "/large");
    let mut other = server.connect();
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body");
    let read = read_to_close(&mut deaf);
    assert!(
        read.is_err() || read.unwrap().len() < LARGE,
        "it is cut off"
    );
}

#[test]
fn responses_in_flight_have_a_limit() {
    let server = start(ServerLimits {
        max_response_bytes: LARGE,
        ..limits()
    });
    let mut deaf = server.connect();
    send(&mut deaf, "/large");
    // The server has begun to send.
    deaf.read_exact(&mut [0]).unwrap();
    let mut other = server.connect();
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body", "while the other does not read");
    let read = read_to_close(&mut deaf);
    assert!(
        read.is_err() || read.unwrap().len() < LARGE,
        "it is cut off"
    );
    let mut reader = server.connect();
    send(&mut reader, "/large");
    assert_eq!(receive(&reader).1.len(), LARGE, "a client that reads");
}

#[test]
fn client_with_requests_in_advance_lets_others_go_first() {
    let server = start(limits());
    let mut eager = server.connect();
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    eager.write_all(request.repeat(200).as_bytes()).unwrap();
    let mut other = server.connect();
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body");
    for _ in 0..200 {
        assert_eq!(receive(&eager).1, "body");
    }
}

/// Makes progress only by what has happened already.
fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

async fn slots<const N: usize>(slots: &Arc<ConnectionSlots>) -> [Slot; N] {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut taken = Vec::new();
    for _ in 0..N {
        taken.push(slots.acquire(peer).await);
    }
    taken.try_into().unwrap()
}

#[tokio::test]
async fn waiting_responses_begin_in_order_when_one_has_been_sent() {
    let all = Arc::new(ConnectionSlots::new(8, 1));
    let [sending, one, two] = slots(&all).await;
    sending.activity.send(&Bytes::from_static(b"1"));
    let mut first = pin!(one.wait_for_response_capacity(|| true));
    let mut second = pin!(two.wait_for_response_capacity(|| true));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());

    drop(sending);
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(first.as_mut()).is_ready());
    one.activity.send(&Bytes::from_static(b"2"));
    assert!(poll_once(second.as_mut()).is_pending());
    one.activity.end_response();
    timeout(TEST_TIMEOUT, second).await.unwrap();
}

#[tokio::test]
async fn body_of_several_connections_counts_once() {
    let all = Arc::new(ConnectionSlots::new(64, 2));
    let sending: [Slot; 10] = slots(&all).await;
    for slot in &sending {
        slot.activity.send(&Bytes::from_static(b"1"));
    }
    let [waiting] = slots(&all).await;
    assert!(poll_once(pin!(waiting.wait_for_response_capacity(|| true))).is_ready());
    sending[0].activity.send(&Bytes::from_static(b"2"));
    assert!(poll_once(pin!(waiting.wait_for_response_capacity(|| true))).is_pending());
    let in_memory = pin!(waiting.wait_for_response_capacity(|| false));
    assert!(poll_once(in_memory).is_ready());
}

#[tokio::test]
async fn waiting_response_evicts_as_many_unread_ones_as_it_needs_oldest_first() {
    let all = Arc::new(ConnectionSlots::new(64, 4));
    let sending: [Slot; 10] = slots(&all).await;
    let bodies = [b"11", b"22", b"33", b"44", b"55"].map(|body| [body; 2]);
    let tasks: Vec<_> = sending
        .into_iter()
        .zip(bodies.into_iter().flatten())
        .map(|(slot, body)| {
            slot.activity.send(&Bytes::from_static(body));
            tokio::spawn(async move { slot.activity.evicted.cancelled().await })
        })
        .collect();
    sleep(RESPONSE_GRACE).await;
    let [waiting] = slots(&all).await;
    let response = waiting.wait_for_response_capacity(|| true);
    timeout(TEST_TIMEOUT, response).await.unwrap();
    let is_evicted: Vec<_> = tasks.iter().map(JoinHandle::is_finished).collect();
    assert_eq!(
        is_evicted,
        [[true; 8].as_slice(), &[false; 2]].concat(),
        "two bytes fit"
    );
}
