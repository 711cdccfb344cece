//! OpenTelemetry's environment variables for exporting traces and logs. Pure: the environment is an argument.
//!
//! The rules are those of the specification
//! (<https://opentelemetry.io/docs/specs/otel/protocol/exporter/>,
//! <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>): a variable for one signal
//! overrides the general one, an empty value is unset, and an invalid value is logged and ignored. Only an invalid
//! endpoint and the protocol `grpc` are errors. A signal without an endpoint is not exported.

mod encoded;

use std::{path::PathBuf, time::Duration};

use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::signal::Signal;
use crate::outbound::url::{self, Secrets, UrlError};

/// The specification's default for one request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const DISABLED: &str = "OTEL_SDK_DISABLED";
/// The only supported protocol.
const PROTOCOL: &str = "http/protobuf";

/// What is exported, and where to.
#[derive(Debug, Clone)]
pub struct OtlpSettings {
    /// At least one, in the order of [`Signal::ALL`].
    pub exporters: Vec<ExporterSettings>,
    /// `OTEL_SERVICE_NAME`.
    pub service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`.
    pub resource_attributes: Vec<(String, String)>,
    /// Messages about variables that are set and ignored.
    pub ignored: Vec<String>,
}

/// The settings of one signal.
#[derive(Debug, Clone)]
pub struct ExporterSettings {
    pub signal: Signal,
    /// With the path.
    pub endpoint: Url,
    /// The values are marked sensitive and do not appear in the log.
    pub headers: HeaderMap,
    /// For one request, from the connection to the last byte of the response.
    pub timeout: Duration,
    pub gzip: bool,
    /// PEM; replaces the system's certificate authorities.
    pub certificate: Option<PathBuf>,
    pub client: Option<ClientCertificate>,
}

/// The PEM files of mutual TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {value:?} {problem}; {remedy}")]
pub struct OtlpConfigError {
    pub variable: String,
    /// Redacted.
    pub value: String,
    pub problem: String,
    pub remedy: String,
}

impl OtlpSettings {
    /// `None` if nothing is exported.
    ///
    /// # Errors
    /// When an endpoint is invalid, or the protocol of a signal that is exported is gRPC.
    pub fn from_env(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, OtlpConfigError> {
        let mut reader = Reader {
            lookup,
            ignored: Vec::new(),
        };
        if reader.is_disabled() {
            return Ok(None);
        }
        reader.check_disabled();
        let mut exporters = Vec::new();
        for signal in Signal::ALL {
            exporters.extend(reader.exporter(signal)?);
        }
        if exporters.is_empty() {
            return Ok(None);
        }
        let resource_attributes = reader.resource_attributes();
        let service_name = reader.get("OTEL_SERVICE_NAME");
        // A general variable is read for each signal.
        let mut ignored: Vec<String> = Vec::new();
        for message in reader.ignored {
            if !ignored.contains(&message) {
                ignored.push(message);
            }
        }
        Ok(Some(Self {
            exporters,
            service_name,
            resource_attributes,
            ignored,
        }))
    }

    /// `None` if the signal is not exported.
    pub fn exporter(&self, signal: Signal) -> Option<&ExporterSettings> {
        let mut exporters = self.exporters.iter();
        exporters.find(|exporter| exporter.signal == signal)
    }
}

impl ExporterSettings {
    pub(crate) fn redacted_endpoint(&self) -> String {
        url::redacted(self.endpoint.as_str())
    }

    /// Those of the endpoint, and the values of the headers.
    pub(crate) fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::of(&self.endpoint);
        for value in self.headers.values() {
            secrets.add_header(value.to_str().unwrap_or_default());
        }
        secrets
    }
}

struct Reader<F> {
    lookup: F,
    ignored: Vec<String>,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    /// An empty value is unset.
    fn get(&self, name: &str) -> Option<String> {
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

    fn ignore(&mut self, name: &str, problem: &str) {
        self.ignored.push(format!("{name} is ignored: {problem}"));
    }

    /// `None` without an endpoint or with the exporter `none`.
    fn exporter(&mut self, signal: Signal) -> Result<Option<ExporterSettings>, OtlpConfigError> {
        let exporter = self.get(signal.exporter_variable());
        if exporter.is_some_and(|name| name.eq_ignore_ascii_case("none")) {
            return Ok(None);
        }
        let Some(endpoint) = self.endpoint(signal)? else {
            return Ok(None);
        };
        self.check_exporter(signal);
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

    fn is_disabled(&self) -> bool {
        let value = self.get(DISABLED);
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// A value without effect is probably a mistake.
    fn check_disabled(&mut self) {
        let is_invalid = |value: &String| !value.eq_ignore_ascii_case("false");
        if let Some(value) = self.get(DISABLED).filter(is_invalid) {
            let problem = format!("{value:?} is neither true nor false, false is used");
            self.ignore(DISABLED, &problem);
        }
    }

    fn check_exporter(&mut self, signal: Signal) {
        let is_without_otlp = |value: &String| {
            !encoded::entries(value).any(|exporter| exporter.eq_ignore_ascii_case("otlp"))
        };
        let variable = signal.exporter_variable();
        if let Some(value) = self.get(variable).filter(is_without_otlp) {
            let problem = format!("{value:?} is neither otlp nor none, otlp is used");
            self.ignore(variable, &problem);
        }
    }

    /// The endpoint of a signal is used as it is; the general one is the base for all signals.
    fn endpoint(&self, signal: Signal) -> Result<Option<Url>, OtlpConfigError> {
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
        let problem = format!("{value:?} is not supported, {PROTOCOL} is used");
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
                // The entry may contain a secret.
                None => self.ignore(
                    &name,
                    "an entry is not a name=value pair with a percent-encoded value, the others are used",
                ),
            }
        }
        headers
    }

    fn timeout(&mut self, signal: Signal) -> Duration {
        let Some((name, value)) = self.otlp(signal, "TIMEOUT") else {
            return DEFAULT_TIMEOUT;
        };
        match value.parse() {
            Ok(millis) if millis > 0 => Duration::from_millis(millis),
            _ => {
                self.ignore(
                    &name,
                    &format!("{value:?} is not a number of milliseconds above 0, 10000 is used"),
                );
                DEFAULT_TIMEOUT
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
                self.ignore(&name, &format!("{value:?} is neither gzip nor none"));
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
    fn resource_attributes(&mut self) -> Vec<(String, String)> {
        const NAME: &str = "OTEL_RESOURCE_ATTRIBUTES";
        let Some(value) = self.get(NAME) else {
            return Vec::new();
        };
        let pairs: Option<Vec<_>> = encoded::entries(&value).map(encoded::pair).collect();
        pairs.unwrap_or_else(|| {
            self.ignore(
                NAME,
                // The value may contain a secret.
                "the value is not a list of name=value pairs with percent-encoded values",
            );
            Vec::new()
        })
    }
}

#[cfg(test)]
mod tests;
