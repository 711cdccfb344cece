//! `tls_server_config` of the file.

use std::path::{Path, PathBuf};

use rustls::{
    SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    version::{TLS12, TLS13},
};
use serde::Deserialize;

use crate::base::text::{excerpt, sanitize};

/// Accepted by exporter-toolkit; rustls does not have them.
const UNUSABLE_SUITES: [&str; 4] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
];
/// Longer names are cut off in notes.
const MAX_NAME_CHARS: usize = 80;

pub(super) struct TlsSettings {
    pub(super) certificate: Pem,
    pub(super) key: Pem,
    pub(super) client_auth: ClientAuth,
    pub(super) client_ca: Option<Pem>,
    /// A client certificate must have one of these names.
    pub(super) allowed_names: Option<Vec<String>>,
    /// At least one.
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    /// With the cipher suites and curves of the file.
    pub(super) provider: CryptoProvider,
}

/// Certificates or a key.
pub(super) struct Pem {
    /// The name of the setting.
    setting: &'static str,
    /// `None` if they are in the text.
    pub(super) file: Option<PathBuf>,
    pub(super) text: String,
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
    Tls10,
    Tls11,
    Tls12,
    Tls13,
}

/// As in the file.
#[derive(Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a mapping of keys to values"
)]
pub(super) struct TlsSection {
    cert: Option<String>,
    key: Option<String>,
    client_ca: Option<String>,
    cert_file: Option<String>,
    key_file: Option<String>,
    client_ca_file: Option<String>,
    client_auth_type: Option<ClientAuth>,
    client_allowed_sans: Option<Vec<String>>,
    min_version: Option<Version>,
    max_version: Option<Version>,
    cipher_suites: Option<Vec<String>>,
    curve_preferences: Option<Vec<String>>,
    #[serde(rename = "prefer_server_cipher_suites")]
    _prefer_server_cipher_suites: Option<bool>,
}

impl Pem {
    /// The file, if both are given.
    fn new(
        (setting, text): (&'static str, Option<String>),
        (file_setting, file): (&'static str, Option<String>),
        directory: &Path,
    ) -> Option<Self> {
        let file = file.filter(|file| !file.is_empty());
        let text = text.filter(|text| !text.is_empty());
        (file.is_some() || text.is_some()).then(|| Self {
            setting: if file.is_some() {
                file_setting
            } else {
                setting
            },
            file: file.map(|file| directory.join(file)),
            text: text.unwrap_or_default(),
        })
    }

    /// Names the setting, and the file if there is one.
    pub(super) fn error(&self, problem: &str) -> String {
        let setting = self.setting;
        match &self.file {
            None => format!("tls_server_config.{setting}: {problem}"),
            Some(file) => {
                let file = file.display().to_string();
                format!(
                    "tls_server_config.{setting} {:?}: {problem}",
                    sanitize(&file)
                )
            }
        }
    }
}

impl TlsSection {
    /// `None` if the port has no TLS. The error begins with the name of the setting.
    pub(super) fn check(
        self,
        directory: &Path,
        notes: &mut Vec<String>,
    ) -> Result<Option<TlsSettings>, String> {
        let mut versions = versions(self.min_version, self.max_version, notes)?;
        let mut provider = ring::default_provider();
        let suites = self.cipher_suites.unwrap_or_default();
        limit_suites(&suites, &mut versions, &mut provider, notes)?;
        let curves = self.curve_preferences.unwrap_or_default();
        limit_curves(&curves, &mut provider, notes)?;
        let names = self.client_allowed_sans;
        let allowed_names = names.map(|names| allowed_names(names, notes)).transpose()?;

        let certificate = Pem::new(
            ("cert", self.cert),
            ("cert_file", self.cert_file),
            directory,
        );
        let key = Pem::new(("key", self.key), ("key_file", self.key_file), directory);
        let client_ca = Pem::new(
            ("client_ca", self.client_ca),
            ("client_ca_file", self.client_ca_file),
            directory,
        );
        let pems = [&certificate, &key, &client_ca];
        if self.client_auth_type.is_none() && pems.iter().all(|pem| pem.is_none()) {
            return Ok(None);
        }
        let missing = |setting: &str| {
            format!("{setting} is missing: set it or tls_server_config.{setting}_file")
        };
        let certificate = certificate.ok_or_else(|| missing("cert"))?;
        let key = key.ok_or_else(|| missing("key"))?;
        let client_auth = self.client_auth_type.unwrap_or(ClientAuth::NoClientCert);
        match (client_auth, &client_ca) {
            (ClientAuth::NoClientCert, Some(ca)) => Err(format!(
                "{} has no effect without tls_server_config.client_auth_type: set it to RequireAndVerifyClientCert",
                ca.setting
            )),
            (ClientAuth::RequireAndVerifyClientCert, None) => Err(
                "client_auth_type needs tls_server_config.client_ca_file or client_ca: no client certificate could be \
                 verified".to_owned(),
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
    notes: &mut Vec<String>,
) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let min = min.unwrap_or(Version::Tls12);
    let max = max.unwrap_or(Version::Tls13);
    if max < Version::Tls12 {
        let problem = "max_version leaves no version: TLS 1.2 is the oldest that is spoken";
        return Err(problem.to_owned());
    }
    if min > max {
        return Err("min_version is newer than max_version".to_owned());
    }
    if min < Version::Tls12 {
        notes.push(
            "tls_server_config.min_version has no effect: TLS 1.2 is the oldest version that is spoken"
                .to_owned(),
        );
    }
    let known = [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)];
    let allowed = known.into_iter().filter(|(v, _)| (min..=max).contains(v));
    Ok(allowed.map(|(_, version)| version).collect())
}

fn left_out(key: &str, name: &str) -> String {
    let name = excerpt(name, MAX_NAME_CHARS);
    format!("tls_server_config.{key}: {name} cannot be used and is left out")
}

/// A list selects those of TLS 1.2. It cannot exclude those of TLS 1.3, as in Go.
fn limit_suites(
    names: &[String],
    versions: &mut Vec<&'static SupportedProtocolVersion>,
    provider: &mut CryptoProvider,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    let mut usable = Vec::new();
    for name in names {
        let suite = provider.cipher_suites.iter().find(|suite| {
            // rustls begins those of TLS 1.3 in its own way.
            let known = suite.suite().as_str().unwrap_or_default();
            known.replace("TLS13_", "TLS_") == *name
        });
        match suite {
            Some(suite) if suite.tls13().is_none() || versions.contains(&&TLS13) => {
                usable.push(*suite);
            }
            None if !UNUSABLE_SUITES.contains(&name.as_str()) => {
                return Err(format!("cipher_suites has {name:?}, which is not known"));
            }
            _ => notes.push(left_out("cipher_suites", name)),
        }
    }
    if usable.is_empty() {
        let problem = "cipher_suites leaves no cipher suite: use one such as TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        return Err(problem.to_owned());
    }
    if usable.iter().all(|suite| suite.tls13().is_some()) {
        versions.retain(|version| *version == &TLS13);
    }
    provider
        .cipher_suites
        .retain(|suite| suite.tls13().is_some() || usable.contains(suite));
    Ok(())
}

/// In the order of preference.
fn limit_curves(
    names: &[String],
    provider: &mut CryptoProvider,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    provider.kx_groups.clear();
    for name in names {
        match name.as_str() {
            "X25519" => provider.kx_groups.push(ring::kx_group::X25519),
            "CurveP256" => provider.kx_groups.push(ring::kx_group::SECP256R1),
            "CurveP384" => provider.kx_groups.push(ring::kx_group::SECP384R1),
            "CurveP521" => notes.push(left_out("curve_preferences", name)),
            _ => {
                return Err(format!(
                    "curve_preferences has {name:?}, which is not known"
                ));
            }
        }
    }
    if provider.kx_groups.is_empty() {
        let problem = "curve_preferences leaves no curve: use X25519, CurveP256 or CurveP384";
        return Err(problem.to_owned());
    }
    Ok(())
}

/// DNS names, URIs and IP addresses. Those of e-mail cannot be read from a certificate here.
fn allowed_names(names: Vec<String>, notes: &mut Vec<String>) -> Result<Vec<String>, String> {
    let is_email = |name: &String| name.contains('@') && !name.contains(':');
    let (emails, allowed): (Vec<_>, Vec<_>) = names.into_iter().partition(is_email);
    notes.extend(
        emails
            .iter()
            .map(|name| left_out("client_allowed_sans", name)),
    );
    if allowed.is_empty() {
        let problem = "client_allowed_sans leaves no name, so that every client certificate would be refused: use DNS \
                       names, URIs or IP addresses";
        return Err(problem.to_owned());
    }
    Ok(allowed)
}
