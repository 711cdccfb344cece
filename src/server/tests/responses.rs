//! The limit on bodies that are being sent.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use super::*;
use crate::server::activity::{RESPONSE_GRACE, ResponseBody};

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

fn send_body(slot: &Slot, body: &'static [u8]) {
    let body = ResponseBody::from(&Bytes::from_static(body));
    slot.activity.enter(ConnectionPhase::Sending, Some(body));
}

/// Runs no timer, so that only notifications make progress.
fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn waiting_responses_begin_in_order_when_one_has_been_sent() {
    let slots = Arc::new(ConnectionSlots::new(8, 1));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let sending = slots.acquire(peer).await;
    send_body(&sending, b"1");
    let waiting = [slots.acquire(peer).await, slots.acquire(peer).await];
    let mut first = pin!(waiting[0].wait_for_response_capacity(|| true));
    let mut second = pin!(waiting[1].wait_for_response_capacity(|| true));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());

    sending.activity.enter(ConnectionPhase::Idle, None);
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(first.as_mut()).is_ready());
    send_body(&waiting[0], b"2");
    assert!(poll_once(second.as_mut()).is_pending());
    waiting[0].activity.enter(ConnectionPhase::Idle, None);
    assert!(poll_once(second.as_mut()).is_ready());
}

#[tokio::test]
async fn response_of_a_closed_connection_is_no_longer_in_flight() {
    let slots = Arc::new(ConnectionSlots::new(8, 1));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let sending = slots.acquire(peer).await;
    send_body(&sending, b"1");
    let waiting = slots.acquire(peer).await;
    let mut response = pin!(waiting.wait_for_response_capacity(|| true));
    assert!(poll_once(response.as_mut()).is_pending());
    drop(sending);
    assert!(poll_once(response.as_mut()).is_ready());
}

#[tokio::test]
async fn body_of_several_connections_counts_once() {
    let slots = Arc::new(ConnectionSlots::new(64, 2));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut sending = Vec::new();
    for _ in 0..10 {
        let slot = slots.acquire(peer).await;
        send_body(&slot, b"1");
        sending.push(slot);
    }
    let waiting = slots.acquire(peer).await;
    assert!(poll_once(pin!(waiting.wait_for_response_capacity(|| true))).is_ready());
    send_body(&sending[0], b"2");
    assert!(poll_once(pin!(waiting.wait_for_response_capacity(|| true))).is_pending());
    let in_memory = pin!(waiting.wait_for_response_capacity(|| false));
    assert!(poll_once(in_memory).is_ready());
}

#[tokio::test]
async fn waiting_response_evicts_as_many_unread_ones_as_it_needs_oldest_first() {
    let slots = Arc::new(ConnectionSlots::new(64, 4));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut tasks = Vec::new();
    for body in [b"11", b"22", b"33", b"44", b"55"] {
        for _ in 0..2 {
            let slot = slots.acquire(peer).await;
            let id = slot.id();
            send_body(&slot, body);
            let task = tokio::spawn(async move {
                let _slot = slot;
                std::future::pending::<()>().await;
            });
            slots.set_task(id, task.abort_handle());
            tasks.push(task);
        }
    }
    sleep(RESPONSE_GRACE).await;
    let waiting = slots.acquire(peer).await;
    let mut response = pin!(waiting.wait_for_response_capacity(|| true));
    assert!(poll_once(response.as_mut()).is_pending());
    for task in tasks.drain(..8) {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert!(poll_once(response.as_mut()).is_ready());
    assert!(
        tasks.iter().all(|task| !task.is_finished()),
        "two bytes fit"
    );
}
