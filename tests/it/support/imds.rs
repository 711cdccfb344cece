//! A scripted IMDS on a loopback socket, with one reply for each request. It complains about requests that IMDS rejects
//! or that the exporter must not send: a second one while one is in flight, a surplus one, one without the `Metadata`
//! header or with a header of a proxy. A complaint fails the test when the fake is dropped.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

use super::{API_VERSION, DEADLINE, reply::Reply, request::Request, wait_until};

/// The reply to an identity request unless the test sets another.
const COMPUTE: &str = r#"{"location":"westeurope","name":"web_0","vmId":"9e7a4c52-61d3-4f0b-8c2e-d5b1a0937f68","vmScaleSetName":"web","vmSize":"Standard_D4s_v5","zone":"1","tagsList":[{"name":"team","value":"shop"}]}"#;

#[derive(Debug)]
pub(crate) struct FakeImds {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    accepting: JoinHandle<()>,
    /// They fill the queue of the listener while no connection is accepted.
    queued: Vec<TcpStream>,
}

#[derive(Debug)]
struct Shared {
    api_version: &'static str,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    script: VecDeque<Reply>,
    standing: Option<Reply>,
    identity: Reply,
    approval: Option<Reply>,
    requests: Vec<Request>,
    complaints: Vec<String>,
    connections: usize,
    in_flight: usize,
}

impl FakeImds {
    /// Sends the replies in their order; a surplus request is a complaint, and so is a reply that was not used.
    pub(crate) async fn scripted(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::start(API_VERSION, script.into_iter().collect(), None).await
    }

    /// Answers every request for events with this reply, until [`FakeImds::now`].
    pub(crate) async fn standing(reply: Reply) -> Self {
        Self::start(API_VERSION, VecDeque::new(), Some(reply)).await
    }

    /// [`FakeImds::standing`] for another api-version.
    pub(crate) async fn of_version(api_version: &'static str, reply: Reply) -> Self {
        Self::start(api_version, VecDeque::new(), Some(reply)).await
    }

    async fn start(
        api_version: &'static str,
        script: VecDeque<Reply>,
        standing: Option<Reply>,
    ) -> Self {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            api_version,
            state: Mutex::new(State {
                script,
                standing,
                identity: Reply::ok(COMPUTE),
                approval: None,
                requests: Vec::new(),
                complaints: Vec::new(),
                connections: 0,
                in_flight: 0,
            }),
        });
        let accepting = tokio::spawn(accept(Arc::clone(&listener), Arc::clone(&shared)));
        Self {
            address,
            shared,
            listener,
            accepting,
            queued: Vec::new(),
        }
    }

    /// A connection that is opened from now on hangs. The present ones are served.
    pub(crate) async fn stop_accepting(&mut self) {
        self.accepting.abort();
        (&mut self.accepting).await.ok();
        let shortest_queue = 0;
        socket2::SockRef::from(&*self.listener)
            .listen(shortest_queue)
            .unwrap();
        let limit = Duration::from_millis(500);
        while let Ok(connected) = timeout(limit, TcpStream::connect(self.address)).await {
            self.queued.push(connected.unwrap());
        }
    }

    pub(crate) fn accept_again(&mut self) {
        self.queued.clear();
        let listener = Arc::clone(&self.listener);
        self.accepting = tokio::spawn(accept(listener, Arc::clone(&self.shared)));
    }

    /// The value of `--imds.url`.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers every request for events with this reply from now on.
    pub(crate) fn now(&self, reply: Reply) {
        self.shared.state().standing = Some(reply);
    }

    /// Answers every identity request with this reply from now on.
    pub(crate) fn identity(&self, reply: Reply) {
        self.shared.state().identity = reply;
    }

    /// Answers every approval with this reply from now on, rather than with one of the script.
    pub(crate) fn approvals(&self, reply: Reply) {
        self.shared.state().approval = Some(reply);
    }

    /// The number of approvals so far.
    pub(crate) fn posts(&self) -> usize {
        let state = self.shared.state();
        let posts = state.requests.iter().filter(|it| it.method == "POST");
        posts.count()
    }

    /// Waits until the total number of approvals is at least this.
    pub(crate) async fn until_posts(&self, count: usize) {
        wait_until(DEADLINE, &format!("{count} approvals"), || {
            (self.posts() >= count).then_some(())
        })
        .await;
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.state().connections
    }

    /// Waits until the total number of requests for events is at least this.
    pub(crate) async fn until_requests(&self, count: usize) {
        wait_until(DEADLINE, &format!("{count} requests"), || {
            (self.event_requests() >= count).then_some(())
        })
        .await;
    }

    /// The number of requests for events so far.
    pub(crate) fn event_requests(&self) -> usize {
        let state = self.shared.state();
        let is_event = |request: &&Request| request.target.contains("/metadata/scheduledevents");
        state.requests.iter().filter(is_event).count()
    }

    /// Takes the complaints, which then do not fail the test.
    pub(crate) fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.shared.state().complaints)
    }
}

impl Drop for FakeImds {
    fn drop(&mut self) {
        self.accepting.abort();
        if std::thread::panicking() {
            return;
        }
        let state = self.shared.state();
        assert!(
            state.complaints.is_empty(),
            "IMDS complains: {:#?}",
            state.complaints
        );
        assert!(
            state.script.is_empty(),
            "{} replies were not used",
            state.script.len()
        );
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Records the request and its complaints; returns the reply.
    async fn take(&self, request: Request) -> Reply {
        // The end of a cancelled request may be seen after the start of the next.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(2);
        while self.state().in_flight > 0 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut state = self.state();
        if state.in_flight > 0 {
            state
                .complaints
                .push("a request while another is in flight".to_owned());
        }
        state.in_flight += 1;
        let mut complaints = complaints_about(&request, self.api_version);
        state.complaints.append(&mut complaints);
        let is_identity = request.target.contains("/metadata/instance");
        let reply = if is_identity {
            state.identity.clone()
        } else if let Some(reply) = state.approval.clone().filter(|_| request.method == "POST") {
            reply
        } else if let Some(next) = state.script.pop_front() {
            next
        } else if let Some(standing) = state.standing.clone() {
            standing
        } else {
            let surplus = format!("a surplus request: {} {}", request.method, request.target);
            state.complaints.push(surplus);
            Reply::error("500 Internal Server Error", "surplus")
        };
        state.requests.push(request);
        reply
    }
}

async fn accept(listener: Arc<TcpListener>, shared: Arc<Shared>) {
    loop {
        let (stream, _peer) = listener.accept().await.unwrap();
        shared.state().connections += 1;
        tokio::spawn(serve(stream, Arc::clone(&shared)));
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let mut left = Vec::new();
    while let Some(request) = Request::read(&mut stream, &mut left).await {
        let reply = shared.take(request).await;
        let is_open = reply.send(&mut stream).await;
        shared.state().in_flight -= 1;
        if !is_open {
            return;
        }
    }
}

/// What IMDS rejects, or the exporter must not send.
fn complaints_about(request: &Request, api_version: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |what: &str| complaints.push(format!("{what}: {request:?}"));
    if request.header("metadata") != Some("true") {
        complain("no Metadata header");
    }
    for forbidden in [
        "x-forwarded-for",
        "forwarded",
        "via",
        "proxy-connection",
        "accept-encoding",
        "authorization",
        "cookie",
        "referer",
    ] {
        if request.header(forbidden).is_some() {
            complain(&format!("header {forbidden}"));
        }
    }
    if !request
        .header("user-agent")
        .is_some_and(|agent| agent.starts_with("azure-scheduled-events-exporter/"))
    {
        complain("not our User-Agent");
    }
    let events = format!("/metadata/scheduledevents?api-version={api_version}");
    let compute = "/metadata/instance/compute?api-version=2021-02-01&format=json";
    match request.method.as_str() {
        "GET" if request.target == events || request.target == compute => {}
        "POST" if request.target == events => {
            if request.header("content-type") != Some("application/json") {
                complain("a POST without a Content-Type");
            }
        }
        _ => complain("a path or a method that IMDS does not have"),
    }
    complaints
}
