//! `tls_server_config` of the file.

use std::path::{Path, PathBuf};

use rustls::{
    SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    version::{TLS12, TLS13},
};
use serde::Deserialize;

use crate::base::{
    file::{MAX_CERTIFICATES_BYTES, read_given},
    text::{excerpt, sanitize},
};

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

/// Certificate, key and client CA, which is empty if there is none.
pub(super) type TlsContent = [Vec<u8>; 3];

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
        directory: &Path,
        [setting, file_setting]: [&'static str; 2],
        [text, file]: [Option<String>; 2],
    ) -> Option<Self> {
        let is_given = |value: &String| !value.is_empty();
        let (text, file) = (text.filter(is_given), file.filter(is_given));
        let setting = file.as_ref().map_or(setting, |_| file_setting);
        (text.is_some() || file.is_some()).then(|| Self {
            setting,
            file: file.map(|file| directory.join(file)),
            text: text.unwrap_or_default(),
        })
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        let file = self.file.as_ref();
        file.map_or_else(
            || Ok(self.text.clone().into_bytes()),
            |path| read_given(path, MAX_CERTIFICATES_BYTES).map_err(|problem| self.error(&problem)),
        )
    }

    /// Names the setting, and the file if there is one.
    pub(super) fn error(&self, problem: &str) -> String {
        let file = self.file.as_ref().map_or_else(String::new, |file| {
            format!(" {:?}", sanitize(&file.display().to_string()))
        });
        format!("tls_server_config.{}{file}: {problem}", self.setting)
    }
}

impl TlsSettings {
    pub(super) fn read(&self) -> Result<TlsContent, String> {
        let client_ca = self.client_ca.as_ref().map(Pem::read);
        Ok([
            self.certificate.read()?,
            self.key.read()?,
            client_ca.transpose()?.unwrap_or_default(),
        ])
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
        let allowed_names = names
            .map(|names| allowed_names(&names, notes))
            .transpose()?;

        let pem = |names, values| Pem::new(directory, names, values);
        let certificate = pem(["cert", "cert_file"], [self.cert, self.cert_file]);
        let key = pem(["key", "key_file"], [self.key, self.key_file]);
        let client_ca = pem(
            ["client_ca", "client_ca_file"],
            [self.client_ca, self.client_ca_file],
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

/// What a list names. `find` returns `None` for what is not known, and `Some(None)` for what is accepted by
/// exporter-toolkit and cannot be used here, which is left out with a note.
fn usable<T>(
    key: &str,
    names: &[String],
    find: impl Fn(&str) -> Option<Option<T>>,
    expected: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<T>, String> {
    let mut usable = Vec::new();
    for name in names {
        match find(name) {
            Some(Some(found)) => usable.push(found),
            Some(None) => {
                let name = excerpt(name, MAX_NAME_CHARS);
                notes.push(format!(
                    "tls_server_config.{key}: {name} cannot be used and is left out"
                ));
            }
            None => return Err(format!("{key} has {name:?}, which is not known")),
        }
    }
    if usable.is_empty() {
        return Err(format!("{key} leaves no {expected}"));
    }
    Ok(usable)
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
    let find = |name: &str| {
        let mut suites = provider.cipher_suites.iter();
        // rustls begins those of TLS 1.3 in its own way.
        let suite = suites.find(|suite| {
            let known = suite.suite().as_str().unwrap_or_default();
            known.replace("TLS13_", "TLS_") == name
        });
        let Some(suite) = suite else {
            return UNUSABLE_SUITES.contains(&name).then_some(None);
        };
        let is_usable = suite.tls13().is_none() || versions.contains(&&TLS13);
        Some(is_usable.then_some(*suite))
    };
    let expected = "cipher suite: use one such as TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    let usable = usable("cipher_suites", names, find, expected, notes)?;
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
    let find = |name: &str| match name {
        "X25519" => Some(Some(ring::kx_group::X25519)),
        "CurveP256" => Some(Some(ring::kx_group::SECP256R1)),
        "CurveP384" => Some(Some(ring::kx_group::SECP384R1)),
        "CurveP521" => Some(None),
        _ => None,
    };
    let expected = "curve: use X25519, CurveP256 or CurveP384";
    provider.kx_groups = usable("curve_preferences", names, find, expected, notes)?;
    Ok(())
}

/// DNS names, URIs and IP addresses. Those of e-mail cannot be read from a certificate here.
fn allowed_names(names: &[String], notes: &mut Vec<String>) -> Result<Vec<String>, String> {
    let is_email = |name: &str| name.contains('@') && !name.contains(':');
    let find = |name: &str| Some((!is_email(name)).then(|| name.to_owned()));
    let expected = "name, so that every client certificate would be refused: use DNS names, URIs or IP addresses";
    usable("client_allowed_sans", names, find, expected, notes)
}
