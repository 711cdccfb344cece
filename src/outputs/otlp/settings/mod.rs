//! OpenTelemetry's environment variables for exporting traces, logs and metrics. Pure: the environment is an argument.
//!
//! The rules are those of the specification
//! (<https://opentelemetry.io/docs/specs/otel/protocol/exporter/>,
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>): an invalid value is logged and
//! ignored. What would send to the wrong place, without credentials, or in a form that the receiver does not take, is
//! an error: endpoint, protocol, headers, client certificate and temporality.

use std::time::Duration;

use opentelemetry_sdk::metrics::Temporality;
use percent_encoding::percent_decode_str;
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::Signal;
use crate::{
    base::text::excerpt,
    http::client::{
        is_own_header,
        tls::{ClientCertificate, TlsFiles},
        url,
    },
};

const MAX_SHOWN_CHARS: usize = 64;
const PROTOCOLS: [(&str, Protocol); 2] =
    [("http/protobuf", Protocol::Http), ("grpc", Protocol::Grpc)];
/// `lowmemory` differs from `delta` only in how the SDK keeps what it has not sent.
const TEMPORALITIES: [(&str, Temporality); 3] = [
    ("cumulative", Temporality::Cumulative),
    ("delta", Temporality::Delta),
    ("lowmemory", Temporality::Delta),
];
const METRICS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";
const METRIC_TIMEOUT: &str = "OTEL_METRIC_EXPORT_TIMEOUT";
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
/// Fewer milliseconds are reported: they may be meant as seconds.
const MIN_MILLIS: u64 = 500;
/// Variables about samplers and batches.
const WITHOUT_EFFECT: [&str; 9] = [
    "OTEL_TRACES_SAMPLER",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BLRP_EXPORT_TIMEOUT",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
];

#[derive(Debug, Clone)]
pub struct OtlpSettings {
    /// In the order of [`Signal::ALL`]; none if there are only messages.
    pub exporters: Vec<ExporterSettings>,
    /// `OTEL_METRIC_EXPORT_INTERVAL`: between two pushes of the metrics while no event changes.
    pub metric_interval: Duration,
    /// Whether counters and histograms count everything since the start of the process, or what is new since the last push.
    pub temporality: Temporality,
    pub service_name: Option<String>,
    pub resource_attributes: Vec<(String, String)>,
    /// Messages about variables that are set and ignored, or probably not as meant.
    pub ignored: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// `http/protobuf`
    #[default]
    Http,
    Grpc,
}

#[derive(Debug, Clone)]
pub struct ExporterSettings {
    pub signal: Signal,
    pub protocol: Protocol,
    /// Over HTTP with the path of the signal, over gRPC without the path of the service.
    pub endpoint: Url,
    /// The values are marked sensitive and do not appear in the log.
    pub headers: HeaderMap,
    /// For one request, from the connection to the last byte of the response.
    pub timeout: Duration,
    pub timeout_variable: String,
    pub gzip: bool,
    pub files: TlsFiles,
}

impl OtlpSettings {
    /// `None` if nothing is exported and no variable is ignored.
    ///
    /// # Errors
    /// When a variable of a signal that is exported is invalid, and the export could not work without it.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let mut variables = Variables {
            lookup,
            ignored: Vec::new(),
        };
        if variables.is_other(variables.named("OTEL_SDK_DISABLED"), "false", "true") {
            return Ok(None);
        }
        let mut exporters = Vec::new();
        for signal in Signal::ALL {
            exporters.extend(variables.exporter(signal)?);
        }
        let mut temporality = Temporality::default();
        let mut metric_interval = Duration::from_mins(1);
        let mut metrics = exporters.iter_mut();
        if let Some(metrics) = metrics.find(|exporter| exporter.signal == Signal::Metrics) {
            let preference = variables.named("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE");
            temporality = one_of(preference, &TEMPORALITIES)?;
            let histograms =
                variables.named("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION");
            variables.is_other(histograms, "explicit_bucket_histogram", "");
            // One request is one export. The defaults are those of the specification.
            let timeout = variables.named(METRIC_TIMEOUT);
            let timeout = variables.millis(timeout, 30_000);
            if timeout < metrics.timeout {
                (metrics.timeout, metrics.timeout_variable) = (timeout, METRIC_TIMEOUT.to_owned());
            }
            let interval = variables.named("OTEL_METRIC_EXPORT_INTERVAL");
            metric_interval = variables.millis(interval, 60_000);
        }
        for name in WITHOUT_EFFECT {
            let is_of = |signal| (signal == Signal::Logs) == name.contains("_BLRP_");
            let mut signals = exporters.iter().map(|exporter| exporter.signal);
            let signal = signals.find(|signal| *signal != Signal::Metrics && is_of(*signal));
            // The samplers that do what this exporter does.
            let value = variables.get(name).filter(|it| !it.ends_with("always_on"));
            if let Some((signal, _)) = signal.zip(value) {
                let problem = format!("all {} are sent, at once", signal.records());
                variables.ignore(name, &problem);
            }
        }
        if exporters.is_empty() && variables.ignored.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            exporters,
            metric_interval,
            temporality,
            service_name: variables.get("OTEL_SERVICE_NAME"),
            resource_attributes: variables.resource_attributes(),
            ignored: variables.ignored,
        }))
    }

    pub fn exporter(&self, signal: Signal) -> Option<&ExporterSettings> {
        let mut exporters = self.exporters.iter();
        exporters.find(|exporter| exporter.signal == signal)
    }
}

impl ExporterSettings {
    /// For messages, without secrets.
    pub(crate) fn shown_endpoint(&self) -> String {
        let path = self.signal.path();
        let has_path = self.endpoint.path().ends_with(&path);
        url::shown(self.endpoint.as_str()) + if has_path { &path } else { "" }
    }
}

/// Reads variables, and collects messages about those that are ignored.
struct Variables<F> {
    lookup: F,
    ignored: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    /// An empty value is unset.
    fn get(&self, name: &str) -> Option<String> {
        let value = (self.lookup)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn named(&self, name: &str) -> Option<(String, String)> {
        Some((name.to_owned(), self.get(name)?))
    }

    /// The variable of a signal, else the general one, with its name.
    fn otlp(&self, signal: Signal, what: &str) -> Option<(String, String)> {
        self.named(&format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.variable()))
            .or_else(|| self.named(&format!("OTEL_EXPORTER_OTLP_{what}")))
    }

    /// Once, also where a general variable is read for each signal. The problem does not contain the value, which may
    /// be a secret that was meant for another variable.
    fn ignore(&mut self, name: &str, problem: &str) {
        self.report(format!("{name} is ignored: {problem}"));
    }

    fn report(&mut self, message: String) {
        if !self.ignored.contains(&message) {
            self.ignored.push(message);
        }
    }

    /// Whether the value is the other supported one, not the default. Any other value is ignored.
    fn is_other(&mut self, given: Option<(String, String)>, default: &str, other: &str) -> bool {
        let Some((name, value)) = given else {
            return false;
        };
        let is_other = value.eq_ignore_ascii_case(other);
        if !is_other && !value.eq_ignore_ascii_case(default) {
            let problem = if other.is_empty() {
                format!("the value is not supported, {default} is used")
            } else {
                format!("the value is neither {other} nor {default}, {default} is used")
            };
            self.ignore(&name, &problem);
        }
        is_other
    }

    fn millis(&mut self, given: Option<(String, String)>, default: u64) -> Duration {
        let Some((name, value)) = given else {
            return Duration::from_millis(default);
        };
        let millis = value.parse().ok().filter(|millis| *millis > 0);
        if let Some(millis) = millis.filter(|millis| *millis < MIN_MILLIS) {
            self.report(format!(
                "{name}={millis} is in milliseconds: for {millis} seconds, write {millis}000"
            ));
        }
        Duration::from_millis(millis.unwrap_or_else(|| {
            let problem =
                format!("the value is not a number of milliseconds above 0, {default} is used");
            self.ignore(&name, &problem);
            default
        }))
    }

    fn exporter(&mut self, signal: Signal) -> Result<Option<ExporterSettings>, String> {
        let protocol = self.otlp(signal, "PROTOCOL");
        let Some(endpoint) = self.endpoint_if_exported(signal, protocol.as_ref())? else {
            return Ok(None);
        };
        if let Some((name, _)) = self.otlp(signal, "INSECURE") {
            self.ignore(&name, "the scheme of the endpoint decides about TLS");
        }
        let ca = self.otlp(signal, "CERTIFICATE");
        let timeout = self.otlp(signal, "TIMEOUT");
        let timeout_variable = timeout
            .as_ref()
            .map_or(TIMEOUT, |(name, _)| name)
            .to_owned();
        Ok(Some(ExporterSettings {
            signal,
            protocol: one_of(protocol, &PROTOCOLS)?,
            endpoint,
            headers: self.headers(signal)?,
            timeout: self.millis(timeout, 10_000),
            timeout_variable,
            gzip: self.is_other(self.otlp(signal, "COMPRESSION"), "none", "gzip"),
            files: TlsFiles {
                ca: ca.map(|(_, path)| path.into()),
                client: self.client_certificate(signal)?,
            },
        }))
    }

    /// Traces and logs are exported unless their exporter is `none`, metrics only if it is `otlp`: all of them are on
    /// `/metrics` already.
    fn endpoint_if_exported(
        &mut self,
        signal: Signal,
        protocol: Option<&(String, String)>,
    ) -> Result<Option<Url>, String> {
        let variable = signal.exporter_variable();
        let is_metrics = signal == Signal::Metrics;
        let default = if is_metrics { "none" } else { "otlp" };
        let given = self.get(&variable);
        let value = given.as_deref().unwrap_or(default);
        let has_otlp = entries(value).any(|it| it.eq_ignore_ascii_case("otlp"));
        let is_invalid = !has_otlp && !value.eq_ignore_ascii_case("none");
        let is_exported = has_otlp || is_invalid && !is_metrics;
        let is_grpc = protocol.is_some_and(|(_, it)| it.eq_ignore_ascii_case("grpc"));
        let endpoint = is_exported.then(|| self.endpoint(signal, is_grpc));
        let endpoint = endpoint.transpose()?.flatten();
        if is_invalid && (is_metrics || endpoint.is_some()) {
            let problem = format!("the value is neither otlp nor none, {default} is used");
            self.ignore(&variable, &problem);
        } else if is_metrics && is_exported && endpoint.is_none() {
            let problem = format!("set OTEL_EXPORTER_OTLP_ENDPOINT or {METRICS_ENDPOINT} too");
            self.ignore(&variable, &problem);
        } else if is_metrics && given.is_none() && self.get(METRICS_ENDPOINT).is_some() {
            let problem = format!("metrics are exported only with {variable}=otlp");
            self.ignore(METRICS_ENDPOINT, &problem);
        }
        Ok(endpoint)
    }

    /// Over HTTP, the endpoint of a signal is used as it is, and the general one is the base for all signals
    /// (<https://opentelemetry.io/docs/specs/otlp/#otlphttp-request>). Over gRPC, each is the address of the services.
    fn endpoint(&self, signal: Signal, is_grpc: bool) -> Result<Option<Url>, String> {
        let Some((variable, value)) = self.otlp(signal, "ENDPOINT") else {
            return Ok(None);
        };
        let url = url::http(&value).map_err(|error| {
            let shown = url::shown(&value);
            let is_named_grpc = value.to_ascii_lowercase().starts_with("grpc");
            let remedy = match (is_grpc, is_named_grpc) {
                (true, _) => "write a URL such as http://localhost:4317, or https:// for TLS",
                (false, true) => {
                    "write http:// or https://, and set OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
                }
                (false, false) => "write a URL such as http://localhost:4318",
            };
            format!("{variable}: {shown:?} {error}; {remedy}")
        })?;
        Ok(Some(if is_grpc || variable.contains(&signal.variable()) {
            url
        } else {
            url::under(&url, &signal.path())
        }))
    }

    fn headers(&self, signal: Signal) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        let (variable, list) = self.otlp(signal, "HEADERS").unwrap_or_default();
        for entry in entries(&list) {
            let header = pair(entry).and_then(|(key, value)| {
                let key = HeaderName::from_bytes(key.as_bytes()).ok()?;
                let mut value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
                value.set_sensitive(true);
                Some((key, value))
            });
            let (key, value) = header.ok_or_else(|| {
                // The value is a secret, and so is an entry that is nothing but a value.
                let name = entry.find([':', '=']).and_then(|end| entry.get(..=end));
                let shown = format!("{}xxxxx", excerpt(name.unwrap_or_default(), MAX_SHOWN_CHARS));
                format!(
                    "{variable}: {shown:?} is not NAME=VALUE with a percent-encoded value; write, for example, \
                     api-key=secret,x-scope-orgid=team%201"
                )
            })?;
            if is_own_header(&key) {
                let name = excerpt(key.as_str(), MAX_SHOWN_CHARS);
                let problem =
                    format!("{variable}: {name:?} cannot be set: it belongs to the transport");
                return Err(problem);
            }
            headers.insert(key, value);
        }
        Ok(headers)
    }

    fn client_certificate(&self, signal: Signal) -> Result<Option<ClientCertificate>, String> {
        let (cert, key) = ("CLIENT_CERTIFICATE", "CLIENT_KEY");
        let (name, path, missing) = match (self.otlp(signal, cert), self.otlp(signal, key)) {
            (Some((_, certificate)), Some((_, key))) => {
                let (certificate, key) = (certificate.into(), key.into());
                return Ok(Some(ClientCertificate { certificate, key }));
            }
            (Some((name, path)), None) => (name.clone(), path, name.replace(cert, key)),
            (None, Some((name, path))) => (name.clone(), path, name.replace(key, cert)),
            (None, None) => return Ok(None),
        };
        Err(format!(
            "{name}: {path:?} is used only together with {missing}: set both, or neither"
        ))
    }

    /// The specification discards all entries if one is invalid.
    fn resource_attributes(&mut self) -> Vec<(String, String)> {
        const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let value = self.get(NAME).unwrap_or_default();
        let pairs: Option<Vec<_>> = entries(&value).map(pair).collect();
        if pairs.is_none() {
            let problem = "the value is not a list of name=value pairs with percent-encoded values";
            self.ignore(NAME, problem);
        }
        pairs.unwrap_or_default()
    }
}

/// The choice with this name, in any case of letters; the default without a value.
fn one_of<T: Copy + Default>(
    given: Option<(String, String)>,
    choices: &[(&str, T)],
) -> Result<T, String> {
    let Some((variable, value)) = given else {
        return Ok(T::default());
    };
    let mut found = choices
        .iter()
        .filter(|(name, _)| value.eq_ignore_ascii_case(name));
    found.next().map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        let (value, names) = (excerpt(&value, MAX_SHOWN_CHARS), names.join(" or "));
        format!("{variable}: {value:?} is not supported; set it to {names}")
    })
}

/// Empty entries are skipped.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

/// A decoded name and value of a list in the format of W3C Baggage (<https://www.w3.org/TR/baggage/#header-content>).
/// `None` without a name, without `=`, or where the encoding is invalid.
fn pair(entry: &str) -> Option<(String, String)> {
    let (name, value) = entry.split_once('=')?;
    let (name, value) = (decode(name.trim())?, decode(value.trim())?);
    (!name.is_empty()).then_some((name, value))
}

/// Stricter than [`percent_decode_str`], which leaves `%zz` as it is.
fn decode(text: &str) -> Option<String> {
    let is_encoded = |rest: &str| {
        let digits = rest.as_bytes().first_chunk::<2>();
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_encoded) {
        return None;
    }
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

#[cfg(test)]
mod tests;
