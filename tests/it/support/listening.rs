//! A fake on a loopback socket that answers each request with a reply.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use super::{Reply, request::Request};

/// On an address that is not the source address of all clients: while a fake restarts, none of them can get its port.
pub(super) const RESTARTABLE: &str = "127.0.0.2:0";
pub(crate) const ANY_PORT: &str = "127.0.0.1:0";

/// Listens until it is dropped.
#[derive(Debug)]
pub(crate) struct Listening<S> {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<S>>,
    respond: fn(&mut S, Request) -> Reply,
    accepting: JoinHandle<()>,
}

impl<S: Send + 'static> Listening<S> {
    pub(crate) async fn start(
        address: &str,
        state: S,
        respond: fn(&mut S, Request) -> Reply,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let state = Arc::new(Mutex::new(state));
        Self {
            address: listener.local_addr().unwrap(),
            accepting: tokio::spawn(accept(listener, Arc::clone(&state), respond)),
            state,
            respond,
        }
    }

    /// Closes the port and all connections, and listens again.
    pub(super) async fn restart(&mut self) {
        self.accepting.abort();
        // Ended by the abort: its listener is closed.
        (&mut self.accepting).await.ok();
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accepting = tokio::spawn(accept(listener, Arc::clone(&self.state), self.respond));
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap()
    }
}

impl<S> Drop for Listening<S> {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept<S: Send + 'static>(
    listener: TcpListener,
    state: Arc<Mutex<S>>,
    respond: fn(&mut S, Request) -> Reply,
) {
    // Closed together with the listener.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _peer) = listener.accept().await.unwrap();
        connections.spawn(serve(stream, Arc::clone(&state), respond));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve<S>(
    mut stream: TcpStream,
    state: Arc<Mutex<S>>,
    respond: fn(&mut S, Request) -> Reply,
) {
    let mut left = Vec::new();
    while let Some(request) = Request::read(&mut stream, &mut left).await {
        let reply = respond(&mut state.lock().unwrap(), request);
        if !reply.send(&mut stream).await {
            return;
        }
    }
}
