//! What the clients of one address may use, and of all.

use super::*;

#[test]
fn connections_are_limited_by_the_number_of_open_files() {
    let within = |open_files, servers| {
        let limits = ServerLimits::default().within(open_files, 36, servers);
        limits.max_connections
    };
    assert_eq!(within(64, 1), 28);
    assert_eq!(within(64, 2), 14);
    assert_eq!(within(1024, 1), 512);
    assert_eq!(within(1024, 2), 494);
    assert_eq!(within(1_048_576, 1), 512);
    assert_eq!(within(16, 1), MIN_CONNECTIONS);
}

fn admitted(clients: &Arc<Clients>, address: &str) -> Vec<Client> {
    let address = address.parse().unwrap();
    std::iter::from_fn(|| clients.admit(address)).collect()
}

#[test]
fn address_has_a_quarter_of_the_connections_and_less_beside_others() {
    let clients = Arc::new(Clients::new(512));
    let mut open: Vec<_> = (2..22)
        .map(|last| admitted(&clients, &format!("127.0.0.{last}")))
        .collect();
    let counts: Vec<_> = open.iter().map(Vec::len).collect();
    assert_eq!(counts[..4], [128, 96, 72, 54]);
    assert_eq!(
        counts[10..],
        [7, 5, 4, 3, 2, 2, 1, 1, 1, 1],
        "a dozen leave some"
    );
    drop(open.remove(0));
    assert_eq!(admitted(&clients, "127.0.0.1").len(), 32);
    // A connection that has ended makes room for another of its address.
    open[0].truncate(20);
    assert_eq!(admitted(&clients, "127.0.0.3").len(), 36);
}

#[test]
fn network_of_ipv6_and_the_two_forms_of_ipv4_are_one_address() {
    for (one, other, is_same) in [
        ("127.0.0.1", "::ffff:127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("2001:db8::1", "2001:db8::ffff:0:0:2", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
    ] {
        let clients = Arc::new(Clients::new(512));
        let _open = admitted(&clients, one);
        let others = admitted(&clients, other).len();
        assert_eq!(others == 0, is_same, "{one} {other}");
    }
}

/// Only Linux has all of 127.0.0.0/8 on its loopback interface.
#[cfg(target_os = "linux")]
fn connect_from(last: u8, server: &TestServer) -> TcpStream {
    let kind = socket2::Type::STREAM;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
    let address = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(&address.into()).unwrap();
    // The server may close the connection before this call has ended.
    if let Err(error) = socket.connect(&server.address.into()) {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    let client = TcpStream::from(socket);
    client.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    client
}

#[cfg(target_os = "linux")]
#[test]
fn connections_beyond_the_limit_are_closed_at_once_and_another_address_is_served() {
    let server = start_with(|it| it.max_connections = 16);
    let mut within: Vec<_> = (0..4).map(|_| connect_from(2, &server)).collect();
    for _ in 0..20 {
        let mut beyond = connect_from(2, &server);
        // Reset or closed.
        assert!(read_to_close(&mut beyond).unwrap_or_default().is_empty());
    }
    for client in within.iter_mut().chain([&mut connect_from(3, &server)]) {
        send(client, "/");
        assert_eq!(receive(client).1, "body");
    }
}

#[test]
fn client_with_requests_in_advance_lets_others_go_first() {
    let server = start();
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

#[cfg(target_os = "linux")]
fn request_large(last: u8, server: &TestServer) -> TcpStream {
    let mut client = connect_from(last, server);
    send(&mut client, "/large");
    client
}

#[cfg(target_os = "linux")]
#[test]
fn one_large_response_of_an_address_is_sent_at_a_time() {
    let server = start_with(|it| it.response_timeout = SHORT);
    let unread = request_large(2, &server);
    unread.peek(&mut [0]).unwrap();
    let waiting = request_large(2, &server);
    let (head, _) = receive(&waiting);
    assert!(head.starts_with("http/1.1 503 "), "{head}");
    let mut small = connect_from(2, &server);
    send(&mut small, "/");
    assert_eq!(receive(&small).1, "body", "a small one does not wait");
    let other = request_large(3, &server);
    assert_eq!(
        receive(&other).1.len(),
        LARGE,
        "another address does not wait"
    );
    assert_eq!(receive(&unread).1.len(), LARGE);
    let next = request_large(2, &server);
    assert_eq!(receive(&next).1.len(), LARGE);
}

#[cfg(target_os = "linux")]
#[test]
fn large_responses_of_all_addresses_wait_for_one_of_eight() {
    let server = start();
    let unread: Vec<_> = (2..10).map(|last| request_large(last, &server)).collect();
    for client in &unread {
        client.peek(&mut [0]).unwrap();
    }
    let ninth = request_large(10, &server);
    ninth.set_read_timeout(Some(SHORT)).unwrap();
    assert!(ninth.peek(&mut [0]).is_err());
    assert_eq!(receive(&unread[3]).1.len(), LARGE);
    ninth.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    assert_eq!(receive(&ninth).1.len(), LARGE);
}
