//! Which connection loses its slot, and the limit on bodies that are being sent.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use tokio::task::JoinHandle;

use super::*;
use crate::http::server::activity::RESPONSE_GRACE;

#[test]
fn connection_beyond_the_limit_waits_for_a_slot() {
    let server = start(ServerLimits {
        max_connections: 2,
        ..limits()
    });
    let _busy = [server.busy(), server.busy()];
    let mut third = server.connect();
    send(&mut third, "/slow");
    assert!(
        server.slow_request.recv_timeout(SHORT).is_err(),
        "the third has no slot yet"
    );
    server.release.notify_one();
    server.slow_request.recv_timeout(TEST_TIMEOUT).unwrap();
}

#[test]
fn idle_connection_stays_open_when_the_waiting_client_has_found_a_slot() {
    let server = start(ServerLimits {
        max_connections: 1,
        ..limits()
    });
    let mut first = server.connect();
    write!(
        first,
        "GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    server.slow_request.recv_timeout(TEST_TIMEOUT).unwrap();
    let mut second = server.connect();
    send(&mut second, "/");
    server.release.notify_one();
    assert_eq!(receive(&first).1, "body");
    for _ in 0..20 {
        assert_eq!(receive(&second).1, "body");
        send(&mut second, "/");
    }
}

fn half_sent(server: &TestServer) -> Client {
    let mut client = server.connect();
    client.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    client
}

#[test]
fn connections_without_a_complete_request_are_evicted_oldest_first() {
    let server = start(ServerLimits {
        max_connections: 3,
        ..limits()
    });
    let mut oldest = half_sent(&server);
    let mut middle = server.connect();
    let mut idle = server.idle();
    let fourth = server.idle();
    assert_eq!(read_to_close(&mut oldest).unwrap(), b"", "half a request");
    let fifth = server.idle();
    assert_eq!(read_to_close(&mut middle).unwrap(), b"", "no request");
    send(&mut idle, "/");
    assert_eq!(receive(&idle).1, "body", "it is not the oldest");
    drop((fourth, fifth));
}

/// Only Linux has all of 127.0.0.0/8 on its loopback interface.
#[cfg(target_os = "linux")]
#[test]
fn address_with_more_than_its_share_loses_its_connections_first() {
    let server = start(ServerLimits {
        max_connections: 4,
        ..limits()
    });
    let from = |address: [u8; 4]| {
        let kind = socket2::Type::STREAM;
        let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&server.address.into()).unwrap();
        let client = Client::from(socket);
        client.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        client
    };
    let mut other = from([127, 0, 0, 2]);
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body");
    for _ in 0..20 {
        drop(server.idle());
    }
    let many: Vec<_> = (0..20).map(|_| server.idle()).collect();
    send(&mut other, "/");
    assert_eq!(receive(&other).1, "body", "the oldest of all stays open");
    drop(many);
}

#[test]
fn connections_are_limited_by_the_number_of_open_files() {
    let within = |open_files, servers| {
        let limits = ServerLimits::default().within(open_files, 36, servers);
        limits.max_connections
    };
    assert_eq!(within(64, 1), 28);
    assert_eq!(within(64, 2), 14);
    assert_eq!(within(1024, 1), 988);
    assert_eq!(within(1024, 2), 494);
    assert_eq!(within(1_048_576, 1), 1024);
    assert_eq!(within(16, 1), MIN_CONNECTIONS);
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
