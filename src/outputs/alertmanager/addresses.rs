//! Requests to each address of an Alertmanager, and what the responses mean.

use std::{collections::BTreeMap, future::Future, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::Response;
use parking_lot::Mutex;
use reqwest::{
    Client, Method, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderValue},
};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::{
    field::{DisplayValue, display},
    info, warn,
};

use super::{posted_alert::ClockDifference, target::Target};
use crate::{
    base::{
        log_id,
        text::label_value,
        time::{Clock, Timestamp, in_words},
        worker::Worker,
    },
    http::client::{
        self, causes, describe, is_tls, is_web_page, proxy, resolver::Resolver, root_cause,
        url::Secrets,
    },
    outputs::output_counters::OutputCounters,
};

/// Alerts of one request.
const MAX_BATCH: usize = 500;
/// Addresses of one name. Each has a client, which holds the certificate authorities.
const MAX_ADDRESSES: usize = 16;
/// Clocks that differ by no more seconds than this count as equal, and a known difference as unchanged.
const MAX_CLOCK_DRIFT: f64 = 60.0;

/// An Alertmanager, or those of one name.
#[derive(Debug)]
pub(super) struct Addresses {
    pub(super) target: Target,
    pub(super) clock: Clock,
    counters: Arc<OutputCounters>,
    /// Reads credentials, resolves host names and makes clients.
    worker: Worker,
    /// The name that is looked up; `None` for an address, and for what is behind a proxy.
    name: Option<String>,
    peers: Mutex<Peers>,
}

/// By address, which is `None` where none is looked up: a client, and the seconds by which its clock is ahead of that of
/// this VM.
type Peers = BTreeMap<Option<IpAddr>, (Client, f64)>;

/// What one address answered to the last of some requests.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) address: Option<IpAddr>,
    /// How many requests were sent. None follows one that failed.
    pub(super) requests: u64,
    /// `None` without a response.
    status: Option<StatusCode>,
    retry_after: Option<Duration>,
    /// The beginning of the body, or the cause of a failure and the remedy, without secrets.
    pub(super) result: Result<Bytes, String>,
}

impl Addresses {
    /// # Errors
    /// When a file cannot be read, or the system has no certificate authorities.
    pub(super) fn new(
        target: Target,
        worker: Worker,
        clock: Clock,
        counters: Arc<OutputCounters>,
    ) -> Result<Self, String> {
        let name = target.alerts.domain().map(str::to_owned);
        let name = name.filter(|_| proxy::of(&target.alerts).is_none());
        let client = target.client(Resolver::System(worker.clone()))?;
        let peer = (None, (client, 0.0));
        let peers = name.is_none().then_some(peer);
        Ok(Self {
            target,
            clock,
            counters,
            worker,
            name,
            peers: Mutex::new(peers.into_iter().collect()),
        })
    }

    /// An address for the log; `None` if it is the only one.
    pub(super) fn shown(&self, address: Option<IpAddr>) -> Option<DisplayValue<IpAddr>> {
        address.filter(|_| self.peers.lock().len() > 1).map(display)
    }

    pub(super) fn clocks(&self) -> ClockDifference {
        let peers = self.peers.lock();
        let seconds = || peers.values().map(|(_, seconds)| *seconds);
        ClockDifference {
            ahead: Duration::from_secs_f64(seconds().fold(0.0, f64::max)),
            behind: Duration::from_secs_f64(-seconds().fold(0.0, f64::min)),
        }
    }

    /// Asks for the status until requests are accepted, so that a wrong setting is known before the first alert.
    pub(super) async fn ask(self: &Arc<Self>) {
        let (alertmanager, proxy) = (self.target.name.as_str(), self.target.shown_proxy());
        let receiver = label_value(alertmanager);
        let is_up = || self.counters.pushes.lock().receivers.get(&*receiver) == Some(&true);
        let mut failures = 0;
        while !is_up() {
            let answers = self.status().await;
            for answer in &answers {
                let address = self.shown(answer.address);
                match &answer.result {
                    Ok(_) => info!(alertmanager, address, proxy, "alertmanager answers"),
                    Err(failure) if failures == 0 => warn!(
                        name: log_id::ALERTMANAGER_NOT_REACHED, alertmanager, address, proxy,
                        error = failure, "alertmanager does not answer"
                    ),
                    Err(_) => {}
                }
            }
            failures += 1;
            let delay = self
                .target
                .timing
                .retry_delay(retry_after(&answers), failures);
            sleep(delay).await;
        }
    }

    /// Where only pushes are allowed, an empty one decides.
    async fn status(self: &Arc<Self>) -> Vec<Answer> {
        let request = Request::new(Method::GET, self.target.status.clone());
        let mut answers = self.send(vec![request]).await;
        if answers.iter().any(Answer::is_refusal) {
            answers = self.send(vec![self.request(&[])]).await;
        } else {
            for answer in &mut answers {
                // A success whose body is no status comes from something else.
                if matches!(&answer.result, Ok(body) if !body.trim_ascii_start().starts_with(b"{"))
                {
                    let why =
                        "the answer is not the status of an Alertmanager: check --alertmanager.url";
                    answer.result = Err(why.to_owned());
                }
            }
        }
        self.show_state(&answers);
        answers
    }

    /// Posts alerts to each address, until a request fails.
    pub(super) async fn post(self: &Arc<Self>, alerts: &[Value]) -> Vec<Answer> {
        let batches = alerts.chunks(MAX_BATCH);
        let answers = self
            .send(batches.map(|it| self.request(it)).collect())
            .await;
        self.show_state(&answers);
        let mut counts = self.counters.pushes.lock();
        for answer in &answers {
            counts.pushes += answer.requests;
            counts.failures += u64::from(answer.result.is_err());
        }
        drop(counts);
        answers
    }

    fn request(&self, alerts: &[Value]) -> Request {
        let mut request = Request::new(Method::POST, self.target.alerts.clone());
        *request.body_mut() = Some(json!(alerts).to_string().into());
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        request
    }

    /// In the gauge `azure_scheduled_events_receiver_up`.
    fn show_state(&self, answers: &[Answer]) {
        let receiver = label_value(&self.target.name).into_owned();
        let is_up = answers.iter().any(|answer| answer.result.is_ok());
        self.counters
            .pushes
            .lock()
            .receivers
            .insert(receiver, is_up);
    }

    /// Sends requests to all addresses of one family, and to those of the other only if none of these answers.
    async fn send(self: &Arc<Self>, mut requests: Vec<Request>) -> Vec<Answer> {
        let prepared =
            self.within_limit(async { Ok((self.headers().await?, self.clients().await?)) });
        let ((headers, secrets), families) = match prepared.await {
            Ok(prepared) => prepared,
            Err(why) => {
                return vec![Answer {
                    requests: 1,
                    result: Err(why),
                    ..Answer::of(None)
                }];
            }
        };
        for request in &mut requests {
            request.headers_mut().extend(headers.clone());
        }
        let requests = Arc::new((requests, secrets));
        let mut answers = Vec::new();
        for family in families {
            let mut sending = JoinSet::new();
            for (address, client) in family {
                let requests = Arc::clone(&requests);
                sending.spawn(Arc::clone(self).send_to(address, client, requests));
            }
            let sent = sending.join_all().await;
            if sent.iter().any(|answer| answer.status.is_some()) {
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
        requests: Arc<(Vec<Request>, Secrets)>,
    ) -> Answer {
        let mut answer = Answer::of(address);
        let (requests, secrets) = &*requests;
        for request in requests.iter().filter_map(Request::try_clone) {
            answer.requests += 1;
            let sent = client.execute(request);
            let response = async { Ok(client::read(sent.await.map_err(unanswered)?).await) };
            let response = self.within_limit(response).await;
            answer.status = response.as_ref().ok().map(Response::status);
            answer.result = response.and_then(|response| {
                let now = self.clock.now().wall;
                if response.status().is_success() {
                    self.compare_clocks(address, response.headers(), now);
                }
                answer.retry_after = client::retry_after(response.headers(), now);
                self.check(response, secrets)
            });
            if answer.result.is_err() {
                break;
            }
        }
        answer
    }

    fn compare_clocks(&self, address: Option<IpAddr>, headers: &HeaderMap, now: Timestamp) {
        let date = headers.get(DATE);
        let date = date.and_then(|date| Timestamp::parse(date.to_str().ok()?));
        let Some(seconds) = date.map(|date| date.seconds_from(now)) else {
            return;
        };
        if let Some((_, known)) = self.peers.lock().get_mut(&address) {
            if (seconds - *known).abs() <= MAX_CLOCK_DRIFT {
                return;
            }
            *known = seconds;
        }
        if seconds.abs() <= MAX_CLOCK_DRIFT {
            return;
        }
        let by = in_words(Duration::from_secs_f64(seconds.abs()));
        let direction = if seconds > 0.0 { "ahead" } else { "behind" };
        warn!(
            alertmanager = self.target.name,
            address = self.shown(address),
            difference = format!("{by} {direction}"),
            "clock of alertmanager differs from that of this VM"
        );
    }

    /// The beginning of the body. Any status but 2xx is an error, and so is a web page.
    fn check(&self, response: Response<Bytes>, secrets: &Secrets) -> Result<Bytes, String> {
        let status = response.status();
        let is_web_page = is_web_page(response.headers(), response.body());
        if status.is_success() && !is_web_page {
            return Ok(response.into_body());
        }
        let remedy = match status.as_u16() {
            _ if is_web_page => {
                "; a web page is no answer of an Alertmanager, but that of a proxy or another server: check --alertmanager.url"
            }
            300..=399 => {
                "; redirects are not followed: give --alertmanager.url as it is behind the redirect"
            }
            401 | 403 => {
                "; check --alertmanager.basic-auth-file, --alertmanager.bearer-token-file or --alertmanager.header"
            }
            404 | 405 => "; --alertmanager.url must have the path that stands before /api/v2",
            _ => "",
        };
        let url = &self.target.alerts;
        let message = describe(&response, response.body(), url, secrets);
        Err(format!("{message}{remedy}"))
    }

    async fn within_limit<T>(
        &self,
        request: impl Future<Output = Result<T, String>>,
    ) -> Result<T, String> {
        let limit = self.target.timing.push_timeout;
        let sent = timeout(limit, request).await;
        sent.unwrap_or_else(|_elapsed| Err(format!("no response within {limit:?}")))
    }

    /// The headers of a request with the credentials, and the secrets in them.
    async fn headers(&self) -> Result<(HeaderMap, Secrets), String> {
        let mut headers = self.target.headers.clone();
        let mut secrets = client::secrets(&self.target.alerts, &self.target.headers);
        if let Some(credentials) = self.target.credentials.clone() {
            let path = credentials.path().display().to_string();
            let read = self.worker.run_while_awaited(move || credentials.header());
            let hangs = || Err(format!("{path}: earlier reads of it hang"));
            let header = read.await.unwrap_or_else(hangs)?;
            let value = String::from_utf8_lossy(header.as_bytes());
            secrets.add_header(value.split_once(' ').map_or(&*value, |(_, it)| it));
            headers.insert(AUTHORIZATION, header);
        }
        Ok((headers, secrets))
    }

    /// A client for each address: those of the family that the system prefers, then those of the other.
    async fn clients(&self) -> Result<[Vec<(Option<IpAddr>, Client)>; 2], String> {
        let addresses = match &self.name {
            Some(name) => self.lookup(name).await?,
            None => vec![None],
        };
        for address in addresses.iter().flatten() {
            if self.peers.lock().contains_key(&Some(*address)) {
                continue;
            }
            let (target, resolver) = (self.target.clone(), Resolver::Fixed(*address));
            let made = self
                .worker
                .run_while_awaited(move || target.client(resolver));
            let made = made.await.ok_or("earlier reads of its files hang")?;
            self.peers.lock().insert(Some(*address), (made?, 0.0));
        }
        let mut peers = self.peers.lock();
        peers.retain(|address, _| addresses.contains(address));
        let is_ipv4 = |address: &Option<IpAddr>| address.is_none_or(|address| address.is_ipv4());
        let first = addresses.first().is_none_or(is_ipv4);
        let clients = peers
            .iter()
            .map(|(address, (client, _))| (*address, client.clone()));
        let (first, other) = clients.partition(|(address, _)| is_ipv4(address) == first);
        Ok([first, other])
    }

    /// A name that cannot be looked up now has the addresses that it had.
    async fn lookup(&self, name: &str) -> Result<Vec<Option<IpAddr>>, String> {
        let lookup = Resolver::System(self.worker.clone()).lookup(name.to_owned());
        let found = timeout(self.target.timing.push_timeout / 2, lookup).await;
        let known: Vec<_> = self.peers.lock().keys().copied().collect();
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

impl Answer {
    /// Before the first request.
    fn of(address: Option<IpAddr>) -> Self {
        Self {
            address,
            requests: 0,
            status: None,
            retry_after: None,
            result: Ok(Bytes::new()),
        }
    }

    fn is_refusal(&self) -> bool {
        let status = self.status.map(|status| status.as_u16());
        matches!(status, Some(401 | 403 | 404 | 405))
    }
}

/// The longest delay that was asked for.
pub(super) fn retry_after(answers: &[Answer]) -> Option<Duration> {
    let failed = answers.iter().filter(|answer| answer.result.is_err());
    failed.filter_map(|answer| answer.retry_after).max()
}

fn unanswered(error: reqwest::Error) -> String {
    let is_refused = !error.is_connect() && causes(&error).any(is_tls);
    let remedy = "; if it asks for a client certificate, set --alertmanager.cert-file";
    root_cause(&error.without_url()) + if is_refused { remedy } else { "" }
}
