//! `tls_server_config` of the file.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    fields::{Fields, SettingError, shown},
    yaml::Node,
};

const PATH: &str = "tls_server_config";
const KEYS: [&str; 13] = [
    "cert",
    "key",
    "client_ca",
    "cert_file",
    "key_file",
    "client_ca_file",
    "client_auth_type",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "curve_preferences",
    "prefer_server_cipher_suites",
];
/// Of these, at least one makes the port a TLS port.
const ENABLING: [&str; 7] = [
    "cert",
    "key",
    "client_ca",
    "cert_file",
    "key_file",
    "client_ca_file",
    "client_auth_type",
];
const VERSIONS: [&str; 4] = ["TLS10", "TLS11", "TLS12", "TLS13"];
/// Where a list of cipher suites leaves TLS 1.2.
const TLS12_SUITES: [&str; 6] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];
/// Always allowed, as in Go.
const TLS13_SUITES: [&str; 3] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];
/// Accepted by exporter-toolkit; rustls does not have them.
const UNUSABLE_SUITES: [&str; 4] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
];

#[derive(Debug)]
pub(super) struct TlsSettings {
    pub(super) certificate: Pem,
    pub(super) key: Pem,
    pub(super) client_auth: ClientAuth,
    pub(super) client_ca: Option<Pem>,
    /// A client certificate must have one of these names.
    pub(super) allowed_names: Option<Vec<String>>,
    /// At least one of the two versions is allowed.
    pub(super) allows_tls12: bool,
    pub(super) allows_tls13: bool,
    /// For TLS 1.2; `None` for all.
    pub(super) cipher_suites: Option<Vec<&'static str>>,
    /// In the order of preference; `None` for all.
    pub(super) curves: Option<Vec<Curve>>,
}

/// Certificates or a key.
#[derive(PartialEq, Eq)]
pub(super) struct Pem {
    /// The name of the setting.
    pub(super) setting: &'static str,
    pub(super) source: PemSource,
}

#[derive(PartialEq, Eq)]
pub(super) enum PemSource {
    Inline(String),
    File(PathBuf),
}

/// Without an inline key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            PemSource::Inline(_) => write!(f, "{} (inline)", self.setting),
            PemSource::File(path) => write!(f, "{}: {}", self.setting, path.display()),
        }
    }
}

/// What is asked of clients. The names in the file are those of Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuth {
    None,
    /// A certificate is asked for, and neither needed nor verified.
    Request,
    /// Any certificate.
    RequireAny,
    VerifyIfGiven,
    RequireAndVerify,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    X25519,
    P256,
    P384,
}

impl TlsSettings {
    /// `None` if the port has no TLS.
    pub(super) fn parse(
        node: Option<&Node>,
        directory: &Path,
        notes: &mut Vec<String>,
    ) -> Result<Option<Self>, SettingError> {
        let fields = Fields::of(node, PATH, &KEYS)?;
        let (allows_tls12, allows_tls13) = versions(&fields, notes)?;
        let cipher_suites = cipher_suites(&fields, allows_tls13, notes)?;
        let curves = curves(&fields, notes)?;
        let allowed_names = allowed_names(&fields, notes)?;
        fields.flag("prefer_server_cipher_suites")?;
        let mut is_enabled = false;
        for key in ENABLING {
            is_enabled |= fields.text(key)?.is_some();
        }
        if !is_enabled {
            return Ok(None);
        }
        let missing = |inline: &'static str, file: &str| {
            fields.error(inline, format!("is missing: set it or {PATH}.{file}"))
        };
        let certificate = pem(&fields, "cert", "cert_file", directory)?;
        let certificate = certificate.ok_or_else(|| missing("cert", "cert_file"))?;
        let key = pem(&fields, "key", "key_file", directory)?;
        let key = key.ok_or_else(|| missing("key", "key_file"))?;
        let client_auth = client_auth(&fields)?;
        let client_ca = pem(&fields, "client_ca", "client_ca_file", directory)?;
        if let (ClientAuth::None, Some(ca)) = (client_auth, &client_ca) {
            let problem = "has no effect without tls_server_config.client_auth_type: set it to RequireAndVerifyClientCert";
            return Err(fields.error(ca.setting, problem));
        }
        if client_auth == ClientAuth::RequireAndVerify && client_ca.is_none() {
            let problem = "needs tls_server_config.client_ca_file or client_ca: no client certificate could be verified";
            return Err(fields.error("client_auth_type", problem));
        }
        Ok(Some(Self {
            certificate,
            key,
            client_auth,
            client_ca,
            allowed_names,
            allows_tls12,
            allows_tls13,
            cipher_suites,
            curves,
        }))
    }
}

/// The file, if both are given.
fn pem(
    fields: &Fields<'_>,
    inline: &'static str,
    file: &'static str,
    directory: &Path,
) -> Result<Option<Pem>, SettingError> {
    let text = fields.text(inline)?;
    let path = fields.text(file)?;
    Ok(match (path, text) {
        (Some(path), _) => Some(Pem {
            setting: file,
            source: PemSource::File(directory.join(path)),
        }),
        (None, Some(text)) => Some(Pem {
            setting: inline,
            source: PemSource::Inline(text.to_owned()),
        }),
        (None, None) => None,
    })
}

fn client_auth(fields: &Fields<'_>) -> Result<ClientAuth, SettingError> {
    match fields.text("client_auth_type")? {
        None | Some("NoClientCert") => Ok(ClientAuth::None),
        Some("RequestClientCert") => Ok(ClientAuth::Request),
        // The second name is an older one.
        Some("RequireAnyClientCert" | "RequireClientCert") => Ok(ClientAuth::RequireAny),
        Some("VerifyClientCertIfGiven") => Ok(ClientAuth::VerifyIfGiven),
        Some("RequireAndVerifyClientCert") => Ok(ClientAuth::RequireAndVerify),
        Some(other) => {
            let problem = format!(
                "is {:?}: use NoClientCert, RequestClientCert, RequireAnyClientCert, VerifyClientCertIfGiven or \
                 RequireAndVerifyClientCert",
                shown(other)
            );
            Err(fields.error("client_auth_type", problem))
        }
    }
}

/// Whether TLS 1.2 and TLS 1.3 are allowed.
fn versions(fields: &Fields<'_>, notes: &mut Vec<String>) -> Result<(bool, bool), SettingError> {
    let version = |key| {
        let Some(name) = fields.scalar(key)? else {
            return Ok(None);
        };
        let number = VERSIONS.iter().position(|known| *known == name);
        number.map(Some).ok_or_else(|| {
            let problem = format!("is {:?}: use {}", shown(name), VERSIONS.join(", "));
            fields.error(key, problem)
        })
    };
    // Positions in `VERSIONS`.
    let min = version("min_version")?.unwrap_or(2);
    let max = version("max_version")?.unwrap_or(3);
    if max < 2 {
        let problem = "leaves no version: TLS 1.2 is the oldest that is spoken";
        return Err(fields.error("max_version", problem));
    }
    if min > max {
        return Err(fields.error("min_version", "is newer than max_version"));
    }
    if min < 2 {
        notes.push(format!(
            "{PATH}.min_version has no effect: TLS 1.2 is the oldest version that is spoken"
        ));
    }
    Ok((min <= 2, max == 3))
}

/// An entry of a list.
enum Choice<T> {
    Usable(T),
    /// exporter-toolkit accepts it, and it cannot be used here.
    Unusable,
    Unknown,
}

/// The usable entries of a list; `None` without a list, and for an empty one. `none_left` is the error if there are
/// only entries that cannot be used.
fn choices<T>(
    fields: &Fields<'_>,
    key: &str,
    choice: impl Fn(&str) -> Choice<T>,
    none_left: &str,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<T>>, SettingError> {
    let Some(names) = fields.list(key)?.filter(|names| !names.is_empty()) else {
        return Ok(None);
    };
    let mut usable = Vec::new();
    for name in names {
        match choice(name) {
            Choice::Usable(value) => usable.push(value),
            Choice::Unusable => notes.push(format!(
                "{PATH}.{key}: {name} cannot be used and is left out"
            )),
            Choice::Unknown => {
                let problem = format!("has {:?}, which is not known", shown(name));
                return Err(fields.error(key, problem));
            }
        }
    }
    if usable.is_empty() {
        return Err(fields.error(key, none_left));
    }
    Ok(Some(usable))
}

/// Those of TLS 1.2. A list cannot exclude those of TLS 1.3.
fn cipher_suites(
    fields: &Fields<'_>,
    allows_tls13: bool,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<&'static str>>, SettingError> {
    let choice = |name: &str| {
        let find = |suites: &[&'static str]| suites.iter().copied().find(|suite| *suite == name);
        match (find(&TLS12_SUITES), find(&TLS13_SUITES)) {
            (Some(suite), _) => Choice::Usable(suite),
            (None, Some(suite)) if allows_tls13 => Choice::Usable(suite),
            (None, Some(_)) => Choice::Unusable,
            (None, None) if UNUSABLE_SUITES.contains(&name) => Choice::Unusable,
            (None, None) => Choice::Unknown,
        }
    };
    let none_left = format!(
        "leaves no cipher suite: use one of {}",
        TLS12_SUITES.join(", ")
    );
    let mut suites = choices(fields, "cipher_suites", choice, &none_left, notes)?;
    if let Some(suites) = &mut suites {
        suites.retain(|suite| TLS12_SUITES.contains(suite));
    }
    Ok(suites)
}

fn curves(
    fields: &Fields<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<Curve>>, SettingError> {
    let choice = |name: &str| match name {
        "X25519" => Choice::Usable(Curve::X25519),
        "CurveP256" => Choice::Usable(Curve::P256),
        "CurveP384" => Choice::Usable(Curve::P384),
        "CurveP521" => Choice::Unusable,
        _ => Choice::Unknown,
    };
    let none_left = "leaves no curve: use X25519, CurveP256 or CurveP384";
    choices(fields, "curve_preferences", choice, none_left, notes)
}

/// DNS names, URIs and IP addresses. Those of e-mail cannot be read from a certificate here.
fn allowed_names(
    fields: &Fields<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Vec<String>>, SettingError> {
    let key = "client_allowed_sans";
    let Some(names) = fields.list(key)? else {
        return Ok(None);
    };
    let is_email = |name: &str| name.contains('@') && !name.contains(':');
    let mut allowed = Vec::new();
    for name in names {
        if is_email(name) {
            notes.push(format!(
                "{PATH}.{key}: {} is left out, e-mail addresses are not compared",
                shown(name)
            ));
        } else {
            allowed.push(name.to_owned());
        }
    }
    if allowed.is_empty() {
        let problem = "leaves no name, so that every client certificate would be refused: use DNS names, URIs or IP addresses";
        return Err(fields.error(key, problem));
    }
    Ok(Some(allowed))
}
