//! The settings in the file of `--web.config.file`, in the format of exporter-toolkit 0.20
//! (<https://github.com/prometheus/exporter-toolkit/blob/v0.20.0/docs/web-configuration.md>).
//!
//! `docs/internals/exporter-toolkit.md` lists what differs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hyper::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS, X_XSS_PROTECTION,
};
use rustls::{
    SupportedCipherSuite, SupportedProtocolVersion,
    crypto::{
        CryptoProvider, SupportedKxGroup,
        ring::{self, kx_group},
    },
    version::{TLS12, TLS13},
};
use serde::{Deserialize, de::IgnoredAny};
use yaml_serde::Value;

use super::passwords;
use crate::base::{
    file::{MAX_CERTIFICATES_BYTES, read_given},
    text::{excerpt, sanitize},
};

/// The headers that can be set, and their values where only some are allowed.
const HEADERS: [(&str, HeaderName, &[&str]); 5] = [
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY, &[]),
    ("Strict-Transport-Security", STRICT_TRANSPORT_SECURITY, &[]),
    (
        "X-Content-Type-Options",
        X_CONTENT_TYPE_OPTIONS,
        &["nosniff"],
    ),
    ("X-Frame-Options", X_FRAME_OPTIONS, &["deny", "sameorigin"]),
    ("X-XSS-Protection", X_XSS_PROTECTION, &[]),
];
/// In the names of Go.
static CURVES: [(&str, &dyn SupportedKxGroup); 3] = [
    ("X25519", kx_group::X25519),
    ("CurveP256", kx_group::SECP256R1),
    ("CurveP384", kx_group::SECP384R1),
];
/// Longer messages are cut off.
const MAX_ERROR_CHARS: usize = 500;

#[derive(Default)]
pub(super) struct Settings {
    pub(super) tls: Option<TlsSettings>,
    /// For all responses.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Names with hashes of bcrypt. If it is empty, nobody needs a password.
    pub(super) users: BTreeMap<String, String>,
    pub(super) notes: Vec<&'static str>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
struct WebConfigFile {
    tls_server_config: Option<TlsSection>,
    http_server_config: Option<HttpSection>,
    basic_auth_users: Option<BTreeMap<String, String>>,
    rate_limit: Option<RateLimitSection>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
struct HttpSection {
    /// A flag in any form of YAML 1.1, such as `no`.
    http2: Option<String>,
    headers: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
struct RateLimitSection {
    #[serde(rename = "interval")]
    _interval: IgnoredAny,
    #[serde(rename = "burst")]
    _burst: IgnoredAny,
}

impl Settings {
    /// Paths in the text are relative to `directory`.
    ///
    /// # Errors
    /// The first setting that is not valid, in one line without passwords and hashes.
    pub(super) fn parse(text: &str, directory: &Path) -> Result<Self, String> {
        let file = read(text).and_then(|file| Self::check(file, directory));
        file.map_err(|problem| excerpt(&problem, MAX_ERROR_CHARS))
    }

    fn check(file: WebConfigFile, directory: &Path) -> Result<Self, String> {
        let tls = file.tls_server_config.unwrap_or_default();
        let http = file.http_server_config.unwrap_or_default();
        let users = file.basic_auth_users.unwrap_or_default();
        for (name, hash) in &users {
            passwords::check_hash(hash)
                .map_err(|problem| format!("basic_auth_users.{name}: {problem}"))?;
        }
        let mut notes = Vec::new();
        let is_on = |flag: String| !["false", "no", "off", "n"].contains(&&*flag.to_lowercase());
        if http.http2.is_some_and(is_on) {
            notes.push("http_server_config.http2 has no effect: only HTTP/1.1 is spoken");
        }
        if file.rate_limit.is_some() {
            notes.push("rate_limit has no effect: requests are not counted");
        }
        Ok(Self {
            tls: tls
                .check(directory)
                .map_err(|problem| format!("tls_server_config.{problem}"))?,
            headers: headers(http.headers.unwrap_or_default())
                .map_err(|problem| format!("http_server_config.headers.{problem}"))?,
            users,
            notes,
        })
    }
}

fn read(text: &str) -> Result<WebConfigFile, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // A `Value` has no key twice; the last of two users with one name would be taken otherwise.
    let file = yaml_serde::from_str::<Value>(text).and_then(|_| yaml_serde::from_str(text));
    file.map(Option::unwrap_or_default).map_err(|error| {
        let problem = error.to_string();
        // serde quotes the value that has another type than expected. It may be a password.
        let quoted = problem.split_once("invalid type: ");
        match quoted.zip(problem.rsplit_once(", expected ")) {
            Some(((path, _), (_, expected))) => format!("{path}not {expected}"),
            None => problem,
        }
    })
}

fn headers(
    given: BTreeMap<String, Option<String>>,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::new();
    for (name, value) in given {
        let value = value.unwrap_or_default();
        let known = HEADERS.into_iter().find(|(known, ..)| *known == name);
        let Some((_, header, allowed)) = known else {
            let known = HEADERS.map(|(known, ..)| known).join(", ");
            return Err(format!("{name} is not known: use {known}"));
        };
        if !allowed.is_empty() && !allowed.contains(&value.as_str()) {
            let allowed = allowed.join(" or ");
            return Err(format!("{name} is {value:?}: use {allowed}"));
        }
        let text = HeaderValue::from_str(&value)
            .map_err(|_| format!("{name} has a character that is not visible ASCII"))?;
        if !value.is_empty() {
            headers.push((header, text));
        }
    }
    Ok(headers)
}

pub(super) struct TlsSettings {
    pub(super) certificate: PemFile,
    pub(super) key: PemFile,
    pub(super) client_auth: ClientAuth,
    pub(super) client_ca: Option<PemFile>,
    pub(super) allowed_names: Option<Vec<String>>,
    /// At least one.
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    /// With the cipher suites and curves of the file.
    pub(super) provider: CryptoProvider,
}

/// Certificate, key and client CA, which is empty if there is none.
pub(super) type TlsContent = [Vec<u8>; 3];

pub(super) struct PemFile {
    setting: &'static str,
    pub(super) path: PathBuf,
}

/// What is asked of clients, in the names of Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum ClientAuth {
    NoClientCert,
    /// A certificate is asked for, and neither needed nor verified.
    RequestClientCert,
    #[serde(alias = "RequireClientCert")]
    RequireAnyClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Version {
    Tls12,
    Tls13,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a mapping")]
struct TlsSection {
    cert: Option<IgnoredAny>,
    key: Option<IgnoredAny>,
    client_ca: Option<IgnoredAny>,
    cert_file: Option<String>,
    key_file: Option<String>,
    client_ca_file: Option<String>,
    client_auth_type: Option<ClientAuth>,
    client_allowed_sans: Option<Vec<String>>,
    min_version: Option<Version>,
    max_version: Option<Version>,
    cipher_suites: Option<Vec<String>>,
    curve_preferences: Option<Vec<String>>,
    /// Without effect in exporter-toolkit too.
    #[serde(rename = "prefer_server_cipher_suites")]
    _prefer_server_cipher_suites: IgnoredAny,
}

impl PemFile {
    fn read(&self) -> Result<Vec<u8>, String> {
        read_given(&self.path, MAX_CERTIFICATES_BYTES).map_err(|problem| self.error(&problem))
    }

    pub(super) fn error(&self, problem: &str) -> String {
        let path = self.path.display().to_string();
        format!(
            "tls_server_config.{} {:?}: {problem}",
            self.setting,
            sanitize(&path)
        )
    }
}

impl TlsSettings {
    pub(super) fn read(&self) -> Result<TlsContent, String> {
        let client_ca = self.client_ca.as_ref().map(PemFile::read);
        Ok([
            self.certificate.read()?,
            self.key.read()?,
            client_ca.transpose()?.unwrap_or_default(),
        ])
    }
}

impl TlsSection {
    /// `None` if the port has no TLS. The error begins with the name of the setting.
    fn check(self, directory: &Path) -> Result<Option<TlsSettings>, String> {
        let inline = [
            ("cert", self.cert),
            ("key", self.key),
            ("client_ca", self.client_ca),
        ];
        if let Some((setting, _)) = inline.iter().find(|(_, value)| value.is_some()) {
            let problem = "cannot be in this file: write it to a file of its own, and set";
            return Err(format!(
                "{setting} {problem} tls_server_config.{setting}_file"
            ));
        }
        let file = |setting, path: Option<String>| {
            let path = path.filter(|path| !path.is_empty())?;
            let path = directory.join(path);
            Some(PemFile { setting, path })
        };
        let certificate = file("cert_file", self.cert_file);
        let key = file("key_file", self.key_file);
        let client_ca = file("client_ca_file", self.client_ca_file);
        let versions = versions(self.min_version, self.max_version)?;
        let provider = provider(self.cipher_suites, self.curve_preferences)?;
        let allowed_names = self.client_allowed_sans.map(allowed_names).transpose()?;
        let files = [&certificate, &key, &client_ca];
        if self.client_auth_type.is_none() && files.iter().all(|file| file.is_none()) {
            return Ok(None);
        }
        let certificate = certificate.ok_or("cert_file is missing")?;
        let key = key.ok_or("key_file is missing")?;
        let client_auth = self.client_auth_type.unwrap_or(ClientAuth::NoClientCert);
        match (client_auth, &client_ca) {
            (ClientAuth::NoClientCert, Some(_)) => Err(
                "client_ca_file has no effect without tls_server_config.client_auth_type: set it to \
                 RequireAndVerifyClientCert".to_owned(),
            ),
            (ClientAuth::RequireAndVerifyClientCert, None) => Err(
                "client_auth_type needs tls_server_config.client_ca_file: no client certificate could be verified"
                    .to_owned(),
            ),
            _ => Ok(Some(TlsSettings {
                certificate,
                key,
                client_auth,
                client_ca,
                allowed_names,
                versions,
                provider,
            })),
        }
    }
}

fn versions(
    min: Option<Version>,
    max: Option<Version>,
) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let min = min.unwrap_or(Version::Tls12);
    let max = max.unwrap_or(Version::Tls13);
    if min > max {
        return Err("min_version is newer than max_version".to_owned());
    }
    let known = [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)];
    let allowed = known.into_iter().filter(|(v, _)| (min..=max).contains(v));
    Ok(allowed.map(|(_, version)| version).collect())
}

fn provider(
    suites: Option<Vec<String>>,
    curves: Option<Vec<String>>,
) -> Result<CryptoProvider, String> {
    let mut provider = ring::default_provider();
    let suites = named("cipher_suites", suites, &known_suites())?;
    if !suites.is_empty() {
        // A list selects those of TLS 1.2. It cannot exclude those of TLS 1.3, as in Go.
        let is_allowed =
            |suite: &SupportedCipherSuite| suite.tls13().is_some() || suites.contains(&suite);
        provider.cipher_suites.retain(is_allowed);
    }
    let curves = named("curve_preferences", curves, &CURVES)?;
    if !curves.is_empty() {
        provider.kx_groups = curves;
    }
    Ok(provider)
}

/// In the names of Go, which are those of IANA.
fn known_suites() -> Vec<(String, &'static SupportedCipherSuite)> {
    let known = ring::ALL_CIPHER_SUITES.iter().filter_map(|suite| {
        let name = suite.suite().as_str()?.replace("TLS13_", "TLS_");
        Some((name, suite))
    });
    known.collect()
}

fn named<T: Copy>(
    setting: &str,
    names: Option<Vec<String>>,
    known: &[(impl AsRef<str>, T)],
) -> Result<Vec<T>, String> {
    let find = |name: String| {
        let found = known.iter().find(|(known, _)| known.as_ref() == name);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<_> = known.iter().map(|(known, _)| known.as_ref()).collect();
            format!("{setting} has {name:?}: use {}", known.join(", "))
        })
    };
    names.unwrap_or_default().into_iter().map(find).collect()
}

/// DNS names, URIs and IP addresses. Those of e-mail cannot be read from a certificate here.
fn allowed_names(names: Vec<String>) -> Result<Vec<String>, String> {
    let is_email = |name: &String| name.contains('@') && !name.contains(':');
    if names.is_empty() || names.iter().any(is_email) {
        let problem = "needs DNS names, URIs or IP addresses, and takes no e-mail addresses";
        return Err(format!("client_allowed_sans {problem}"));
    }
    Ok(names)
}
