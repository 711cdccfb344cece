//! Slots, and which connection loses its own.

use super::*;

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
fn idle_connection_is_closed_when_another_client_waits() {
    let server = start(ServerLimits {
        max_connections: 2,
        ..limits()
    });
    let mut idle = server.idle();
    let busy = server.busy();
    let mut third = server.connect();
    send(&mut third, "/");
    assert_eq!(receive(&third).1, "body");
    assert_eq!(
        read_to_close(&mut idle).unwrap(),
        b"",
        "the idle one is closed"
    );
    server.release.notify_one();
    assert_eq!(receive(&busy).1, "body", "the busy one stays open");
}

#[test]
fn new_connection_in_the_last_slot_has_time_for_its_request() {
    let server = start(ServerLimits {
        max_connections: 1,
        ..limits()
    });
    for _ in 0..50 {
        drop(server.idle());
    }
}

#[test]
fn idle_connection_in_the_last_slot_stays_open_while_no_client_waits() {
    let server = start(ServerLimits {
        max_connections: 1,
        ..limits()
    });
    let mut client = server.connect();
    for _ in 0..20 {
        send(&mut client, "/");
        assert_eq!(receive(&client).1, "body");
    }
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
