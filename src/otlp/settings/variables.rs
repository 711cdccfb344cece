//! Reads the variables of any signal.

use std::time::Duration;

use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::{ClientCertificate, ExporterSettings, OtlpConfigError, encoded};
use crate::{
    otlp::signal::Signal,
    outbound::url::{self, UrlError},
};

/// The specification's default for one request.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const DISABLED: &str = "OTEL_SDK_DISABLED";
/// The only supported protocol.
const PROTOCOL: &str = "http/protobuf";

pub(super) struct Reader<F> {
    lookup: F,
    pub(super) ignored: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    pub(super) fn new(lookup: F) -> Self {
        Self {
            lookup,
            ignored: Vec::new(),
        }
    }

    /// An empty value is unset.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let value = (self.lookup)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// The variable of a signal, else the general one, with its name.
    fn otlp(&self, signal: Signal, what: &str) -> Option<(String, String)> {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.variable()),
            format!("OTEL_EXPORTER_OTLP_{what}"),
        ];
        names.into_iter().find_map(|name| {
            let value = self.get(&name)?;
            Some((name, value))
        })
    }

    /// The problem does not contain the value, which may be a secret that was meant for another variable.
    pub(super) fn ignore(&mut self, name: &str, problem: &str) {
        self.ignored.push(format!("{name} is ignored: {problem}"));
    }

    /// `None` if the signal is not exported.
    pub(super) fn exporter(
        &mut self,
        signal: Signal,
    ) -> Result<Option<ExporterSettings>, OtlpConfigError> {
        let endpoint = match signal {
            Signal::Traces | Signal::Logs => self.endpoint_unless_none(signal)?,
            Signal::Metrics => self.metrics_endpoint()?,
        };
        let Some(endpoint) = endpoint else {
            return Ok(None);
        };
        self.check_protocol(signal)?;
        Ok(Some(ExporterSettings {
            signal,
            endpoint,
            headers: self.headers(signal),
            timeout: self.timeout(signal),
            gzip: self.gzip(signal),
            certificate: self
                .otlp(signal, "CERTIFICATE")
                .map(|(_, path)| path.into()),
            client: self.client_certificate(signal),
        }))
    }

    pub(super) fn is_disabled(&self) -> bool {
        let value = self.get(DISABLED);
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// A value without effect is probably a mistake.
    pub(super) fn check_disabled(&mut self) {
        let is_invalid = |value: String| !value.eq_ignore_ascii_case("false");
        if self.get(DISABLED).is_some_and(is_invalid) {
            self.ignore(
                DISABLED,
                "the value is neither true nor false, false is used",
            );
        }
    }

    /// `None` without an endpoint or with the exporter `none`.
    fn endpoint_unless_none(&mut self, signal: Signal) -> Result<Option<Url>, OtlpConfigError> {
        let variable = signal.exporter_variable();
        let exporter = self.get(variable);
        if exporter.as_deref().is_some_and(is_none) {
            return Ok(None);
        }
        let endpoint = self.endpoint(signal)?;
        if endpoint.is_some() && exporter.is_some_and(|value| !has_otlp(&value)) {
            self.ignore(variable, "the value is neither otlp nor none, otlp is used");
        }
        Ok(endpoint)
    }

    /// The endpoint of a signal is used as it is; the general one is the base for all signals.
    pub(super) fn endpoint(&self, signal: Signal) -> Result<Option<Url>, OtlpConfigError> {
        let Some((variable, value)) = self.otlp(signal, "ENDPOINT") else {
            return Ok(None);
        };
        let wrong = |error: UrlError| OtlpConfigError {
            variable: variable.clone(),
            value: url::redacted(&value),
            problem: error.to_string(),
            remedy: "write a URL such as http://localhost:4318".to_owned(),
        };
        let url = url::http(&value).map_err(wrong)?;
        Ok(Some(if variable.contains(signal.variable()) {
            url
        } else {
            url::under(&url, signal.path())
        }))
    }

    /// Collectors have another port for gRPC.
    fn check_protocol(&mut self, signal: Signal) -> Result<(), OtlpConfigError> {
        let given = self.otlp(signal, "PROTOCOL");
        let Some((variable, value)) = given.filter(|(_, value)| value != PROTOCOL) else {
            return Ok(());
        };
        if value == "grpc" {
            let exporter = signal.exporter_variable();
            return Err(OtlpConfigError {
                remedy: format!(
                    "set it to {PROTOCOL}, for which collectors listen on port 4318, or set {exporter}=none"
                ),
                problem: "is not supported".to_owned(),
                variable,
                value,
            });
        }
        let problem = format!("the value is not supported, {PROTOCOL} is used");
        self.ignore(&variable, &problem);
        Ok(())
    }

    fn headers(&mut self, signal: Signal) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let Some((name, value)) = self.otlp(signal, "HEADERS") else {
            return headers;
        };
        for entry in encoded::entries(&value) {
            let pair = encoded::pair(entry).and_then(|(key, value)| {
                let key = HeaderName::from_bytes(key.as_bytes()).ok()?;
                let mut value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
                value.set_sensitive(true);
                Some((key, value))
            });
            match pair {
                Some((key, value)) => {
                    headers.insert(key, value);
                }
                None => self.ignore(
                    &name,
                    "an entry is not a name=value pair with a percent-encoded value, the others are used",
                ),
            }
        }
        headers
    }

    fn timeout(&mut self, signal: Signal) -> Duration {
        let given = self.otlp(signal, "TIMEOUT");
        self.millis(given, DEFAULT_TIMEOUT)
    }

    /// The value of a variable with this name and value, if it is set and valid.
    pub(super) fn millis(
        &mut self,
        given: Option<(String, String)>,
        default: Duration,
    ) -> Duration {
        let Some((name, value)) = given else {
            return default;
        };
        match value.parse() {
            Ok(millis) if millis > 0 => Duration::from_millis(millis),
            _ => {
                let default_millis = default.as_millis();
                let problem = format!(
                    "the value is not a number of milliseconds above 0, {default_millis} is used"
                );
                self.ignore(&name, &problem);
                default
            }
        }
    }

    fn gzip(&mut self, signal: Signal) -> bool {
        let Some((name, value)) = self.otlp(signal, "COMPRESSION") else {
            return false;
        };
        match value.to_ascii_lowercase().as_str() {
            "gzip" => true,
            "none" => false,
            _ => {
                self.ignore(&name, "the value is neither gzip nor none, none is used");
                false
            }
        }
    }

    fn client_certificate(&mut self, signal: Signal) -> Option<ClientCertificate> {
        match (
            self.otlp(signal, "CLIENT_CERTIFICATE"),
            self.otlp(signal, "CLIENT_KEY"),
        ) {
            (Some((_, certificate)), Some((_, key))) => Some(ClientCertificate {
                certificate: certificate.into(),
                key: key.into(),
            }),
            (Some((name, _)), None) | (None, Some((name, _))) => {
                self.ignore(
                    &name,
                    "a client certificate and its key are used only together",
                );
                None
            }
            (None, None) => None,
        }
    }

    /// The specification discards all entries if one is invalid.
    pub(super) fn resource_attributes(&mut self) -> Vec<(String, String)> {
        const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let Some(value) = self.get(NAME) else {
            return Vec::new();
        };
        let pairs: Option<Vec<_>> = encoded::entries(&value).map(encoded::pair).collect();
        pairs.unwrap_or_else(|| {
            self.ignore(
                NAME,
                "the value is not a list of name=value pairs with percent-encoded values",
            );
            Vec::new()
        })
    }
}

/// Of a variable that selects exporters.
pub(super) fn is_none(value: &str) -> bool {
    value.eq_ignore_ascii_case("none")
}

/// The same, for a list of exporters.
pub(super) fn has_otlp(value: &str) -> bool {
    encoded::entries(value).any(|exporter| exporter.eq_ignore_ascii_case("otlp"))
}
