//! Requests to each address of an Alertmanager, and what the responses mean.

use std::{
    collections::BTreeMap,
    future::Future,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use reqwest::{
    Client, Method, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap},
};
use tokio::{task::JoinSet, time::timeout};
use tracing::{
    field::{DisplayValue, display},
    warn,
};

use super::{
    alerts::{Alert, ClockDifference},
    target::{Target, TargetError},
};
use crate::{
    base::{
        time::{Clock, Timestamp, in_words},
        worker::Worker,
    },
    http::client::{
        self, causes, describe, is_tls, is_web_page, proxy, read_up_to, redirect,
        resolver::Resolver, retry_after, root_cause, url::Secrets,
    },
};

/// Addresses of one name. Each has a client, which holds the certificate authorities.
const MAX_ADDRESSES: usize = 16;
/// Clocks that differ by no more than this count as equal, and a known difference as unchanged.
const MAX_CLOCK_DRIFT: Duration = Duration::from_mins(1);
/// Bytes that are read of a response that explains an error.
const MAX_ERROR_BODY: usize = 4 << 10;
/// Characters of it that are logged.
const MAX_MESSAGE: usize = 300;

/// An Alertmanager, or those of one name.
#[derive(Debug)]
pub(super) struct Addresses {
    pub(super) target: Target,
    pub(super) clock: Clock,
    /// Reads credentials, resolves host names and makes clients.
    worker: Worker,
    /// The name that is looked up; `None` for an address, and for what is behind a proxy.
    name: Option<String>,
    /// By address; `None` where none is looked up.
    peers: Mutex<BTreeMap<Option<IpAddr>, Peer>>,
}

#[derive(Debug)]
struct Peer {
    client: Client,
    clock: ClockDifference,
    /// It answered the last request.
    is_answering: bool,
}

/// What one address answered to the last of some requests.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) address: Option<IpAddr>,
    /// How many requests were sent. None follows one that failed.
    pub(super) requests: u64,
    /// The beginning of the body.
    pub(super) result: Result<Bytes, RequestFailure>,
}

/// Why a request failed.
#[derive(Debug)]
pub(super) struct RequestFailure {
    /// The cause and the remedy, without secrets.
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
    /// `None` without a response.
    status: Option<StatusCode>,
}

impl From<String> for RequestFailure {
    fn from(message: String) -> Self {
        Self {
            message,
            retry_after: None,
            status: None,
        }
    }
}

/// Requests that differ in their alerts.
struct Requests {
    method: Method,
    headers: HeaderMap,
    secrets: Secrets,
    batches: Vec<Vec<Alert>>,
}

impl Addresses {
    /// # Errors
    /// When a file cannot be read, or the system has no certificate authorities.
    pub(super) fn new(target: Target, worker: Worker, clock: Clock) -> Result<Self, TargetError> {
        let name = target.alerts.domain().map(str::to_owned);
        let name = name.filter(|_| proxy::of(&target.alerts).is_none());
        let peer = Peer::new(target.client(Resolver::new(worker.clone()))?);
        let peers = name.is_none().then_some((None, peer));
        Ok(Self {
            target,
            clock,
            worker,
            name,
            peers: Mutex::new(peers.into_iter().collect()),
        })
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<Option<IpAddr>, Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An address for the log; `None` if it is the only one.
    pub(super) fn shown(&self, address: Option<IpAddr>) -> Option<DisplayValue<IpAddr>> {
        address.filter(|_| self.peers().len() > 1).map(display)
    }

    pub(super) fn clocks(&self) -> ClockDifference {
        let peers = self.peers();
        let clocks = peers.values().map(|peer| peer.clock);
        clocks.fold(ClockDifference::default(), ClockDifference::max)
    }

    /// Asks for the status. Where only pushes are allowed, an empty one decides.
    pub(super) async fn ask(self: &Arc<Self>) -> Vec<Answer> {
        let mut answers = self.send(Method::GET, vec![Vec::new()]).await;
        let refusals = [401, 403, 404, 405];
        let is_refused = |answer: &Answer| {
            let failure = answer.result.as_ref().err();
            let status = failure.and_then(|failure| failure.status);
            status.is_some_and(|status| refusals.contains(&status.as_u16()))
        };
        if answers.iter().any(is_refused) {
            return self.post(vec![Vec::new()]).await;
        }
        for Answer { result, .. } in &mut answers {
            if matches!(result, Ok(body) if !body.trim_ascii_start().starts_with(b"{")) {
                let why =
                    "the answer is not the status of an Alertmanager: check --alertmanager.url";
                *result = Err(why.to_owned().into());
            }
        }
        answers
    }

    /// Posts alerts to each address, as one request for each batch, until one fails.
    pub(super) async fn post(self: &Arc<Self>, batches: Vec<Vec<Alert>>) -> Vec<Answer> {
        self.send(Method::POST, batches).await
    }

    /// Sends requests to all addresses of one family, and to those of the other only if none of these answers.
    async fn send(self: &Arc<Self>, method: Method, batches: Vec<Vec<Alert>>) -> Vec<Answer> {
        let prepared =
            self.within_limit(async { Ok((self.headers().await?, self.clients().await?)) });
        let ((headers, secrets), families) = match prepared.await {
            Ok(prepared) => prepared,
            Err(failure) => {
                return vec![Answer {
                    address: None,
                    requests: 1,
                    result: Err(failure),
                }];
            }
        };
        let requests = Arc::new(Requests {
            method,
            headers,
            secrets,
            batches,
        });
        let mut answers = Vec::new();
        for family in families {
            let mut sending = JoinSet::new();
            for (address, client) in family {
                let requests = Arc::clone(&requests);
                sending.spawn(Arc::clone(self).send_to(address, client, requests));
            }
            let sent = sending.join_all().await;
            if sent.iter().any(Answer::is_response) {
                return sent;
            }
            answers.extend(sent);
        }
        answers
    }

    async fn send_to(
        self: Arc<Self>,
        address: Option<IpAddr>,
        client: Client,
        requests: Arc<Requests>,
    ) -> Answer {
        let mut answer = Answer {
            address,
            requests: 0,
            result: Ok(Bytes::new()),
        };
        for alerts in &requests.batches {
            answer.requests += 1;
            answer.result = self
                .within_limit(self.request(address, &client, &requests, alerts))
                .await;
            if answer.result.is_err() {
                break;
            }
        }
        if let Some(peer) = self.peers().get_mut(&address) {
            peer.is_answering = answer.is_response();
        }
        answer
    }

    async fn request(
        &self,
        address: Option<IpAddr>,
        client: &Client,
        requests: &Requests,
        alerts: &[Alert],
    ) -> Result<Bytes, RequestFailure> {
        let request = if requests.method == Method::GET {
            client.get(self.target.status.clone())
        } else {
            let body = serde_json::to_vec(alerts).map_err(|error| error.to_string())?;
            let request = client.post(self.target.alerts.clone()).body(body);
            request.header(CONTENT_TYPE, "application/json")
        };
        let sent = request.headers(requests.headers.clone()).send().await;
        let now = self.clock.now().wall;
        let date = sent.as_ref().ok().and_then(|response| {
            let date = response.headers().get(DATE)?.to_str().ok()?;
            Timestamp::parse(date).filter(|_| response.status().is_success())
        });
        if let Some(date) = date {
            self.compare_clocks(address, ClockDifference::between(date, now));
        }
        read(sent, &requests.secrets, now).await
    }

    fn compare_clocks(&self, address: Option<IpAddr>, clock: ClockDifference) {
        if let Some(peer) = self.peers().get_mut(&address) {
            let was = peer.clock;
            let drift = clock.ahead.abs_diff(was.ahead) + clock.behind.abs_diff(was.behind);
            if drift <= MAX_CLOCK_DRIFT {
                return;
            }
            peer.clock = clock;
        }
        let (by, direction) = match clock {
            ClockDifference { ahead, .. } if ahead > MAX_CLOCK_DRIFT => (ahead, "ahead"),
            ClockDifference { behind, .. } if behind > MAX_CLOCK_DRIFT => (behind, "behind"),
            _ => return,
        };
        warn!(
            alertmanager = self.target.name,
            address = self.shown(address),
            difference = format!("{} {direction}", in_words(by)),
            "clock of alertmanager differs from that of this VM"
        );
    }

    async fn within_limit<T>(
        &self,
        request: impl Future<Output = Result<T, RequestFailure>>,
    ) -> Result<T, RequestFailure> {
        let limit = self.target.timing.push_timeout;
        let sent = timeout(limit, request).await;
        sent.unwrap_or_else(|_elapsed| Err(format!("no response within {limit:?}").into()))
    }

    /// The headers of a request with the credentials, and the secrets in them.
    async fn headers(&self) -> Result<(HeaderMap, Secrets), String> {
        let mut headers = self.target.headers.clone();
        let mut secrets = client::secrets(&self.target.alerts, &self.target.headers);
        if let Some(credentials) = self.target.credentials.clone() {
            let path = credentials.path().display().to_string();
            let read = self.worker.run_while_awaited(move || credentials.header());
            let header = read
                .await
                .ok_or_else(|| format!("{path}: earlier reads of it hang"))?
                .map_err(|why| format!("{path} {why}"))?;
            let value = String::from_utf8_lossy(header.as_bytes());
            secrets.add_header(value.split_once(' ').map_or(&*value, |(_, it)| it));
            headers.insert(AUTHORIZATION, header);
        }
        Ok((headers, secrets))
    }

    /// A client for each address: those of the family that answered last, then those of the other.
    async fn clients(&self) -> Result<[Vec<(Option<IpAddr>, Client)>; 2], String> {
        let addresses = match &self.name {
            Some(name) => self.lookup(name).await?,
            None => vec![None],
        };
        for address in addresses.iter().flatten() {
            if self.peers().contains_key(&Some(*address)) {
                continue;
            }
            let (target, resolver) = (self.target.clone(), Resolver::fixed(*address));
            let made = self
                .worker
                .run_while_awaited(move || target.client(resolver));
            let made = made.await.ok_or("earlier reads of its files hang")?;
            let client = made.map_err(|error| error.to_string())?;
            self.peers().insert(Some(*address), Peer::new(client));
        }
        let mut peers = self.peers();
        peers.retain(|address, _| addresses.contains(address));
        let is_ipv4 = |address: &Option<IpAddr>| address.is_none_or(|address| address.is_ipv4());
        let answering = peers.iter().find(|(_, peer)| peer.is_answering);
        let first = answering.map(|(address, _)| address);
        let first = first.or(addresses.first()).is_none_or(is_ipv4);
        let clients = peers
            .iter()
            .map(|(address, peer)| (*address, peer.client.clone()));
        let (first, other) = clients.partition(|(address, _)| is_ipv4(address) == first);
        Ok([first, other])
    }

    /// A name that cannot be looked up now has the addresses that it had.
    async fn lookup(&self, name: &str) -> Result<Vec<Option<IpAddr>>, String> {
        let lookup = Resolver::new(self.worker.clone()).lookup(name.to_owned());
        let found = timeout(self.target.timing.push_timeout / 2, lookup).await;
        let known: Vec<_> = self.peers().keys().copied().collect();
        match found {
            Ok(Ok(found)) => {
                let mut addresses: Vec<_> = found.map(|address| Some(address.ip())).collect();
                addresses.truncate(MAX_ADDRESSES);
                Ok(addresses)
            }
            _ if !known.is_empty() => Ok(known),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_elapsed) => Err(format!("no answer to the lookup of {name}")),
        }
    }
}

impl Peer {
    fn new(client: Client) -> Self {
        Self {
            client,
            clock: ClockDifference::default(),
            is_answering: false,
        }
    }
}

impl Answer {
    /// Whatever its status.
    fn is_response(&self) -> bool {
        let failure = self.result.as_ref().err();
        failure.is_none_or(|failure| failure.status.is_some())
    }
}

/// The beginning of the body. Any status but 2xx is an error, and so is a web page.
async fn read(
    sent: Result<Response, reqwest::Error>,
    secrets: &Secrets,
    now: Timestamp,
) -> Result<Bytes, RequestFailure> {
    let mut response = sent.map_err(|error| {
        let is_refused = !error.is_connect() && causes(&error).any(is_tls);
        let remedy = "; if it asks for a client certificate, set --alertmanager.cert-file";
        root_cause(&error.without_url()) + if is_refused { remedy } else { "" }
    })?;
    let body = read_up_to(&mut response, MAX_ERROR_BODY).await;
    let status = response.status();
    let is_web_page = is_web_page(response.headers(), &body);
    if status.is_success() && !is_web_page {
        return Ok(body);
    }
    let remedy = if is_web_page {
        "a web page is no answer of an Alertmanager, but that of a proxy or another server: check --alertmanager.url"
    } else {
        remedy(status)
    };
    let message = match redirect(response.url(), status, response.headers()) {
        Some(target) => format!("HTTP {status} to {target}"),
        None => describe(status, &body, MAX_MESSAGE, secrets),
    };
    let separator = if remedy.is_empty() { "" } else { "; " };
    Err(RequestFailure {
        message: format!("{message}{separator}{remedy}"),
        retry_after: retry_after(response.headers(), now),
        status: Some(status),
    })
}

fn remedy(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => {
            "redirects are not followed: give --alertmanager.url as it is behind the redirect"
        }
        401 | 403 => {
            "check --alertmanager.basic-auth-file, --alertmanager.bearer-token-file or --alertmanager.header"
        }
        404 | 405 => "--alertmanager.url must have the path that stands before /api/v2",
        _ => "",
    }
}
