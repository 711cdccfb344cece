//! Which `Host` headers may read the events. A web page that rebinds its own name to the address of this VM (DNS
//! rebinding) could otherwise read them with the browser of a person who visits it.

use hyper::{HeaderMap, Uri};

use crate::{
    core::snapshot::Snapshot,
    http::server::{is_host_allowed, normalized},
};

/// Host names besides IP addresses, `localhost` and the names of the VM in the snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    /// Names, `*.example.com` and `*`.
    patterns: Vec<String>,
}

impl AllowedHosts {
    /// Adds a name, `*.DOMAIN` or `*`.
    ///
    /// # Errors
    /// If it is none of these. The text continues a sentence that begins with the name of the flag.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let is_valid = match text.strip_prefix('*') {
            Some("") => true,
            Some(domain) => domain.len() > 1 && domain.starts_with('.') && is_name(domain),
            None => is_name(text),
        };
        if !is_valid {
            return Err(format!(
                "{text:?} is not a host name without a port: use a name such as exporter.example.com, *.example.com or *"
            ));
        }
        self.patterns.push(normalized(text));
        Ok(())
    }

    pub(super) fn allows(&self, uri: &Uri, headers: &HeaderMap, snapshot: &Snapshot) -> bool {
        is_host_allowed(uri, headers, |name| self.allows_name(name, snapshot))
    }

    fn allows_name(&self, host: &str, snapshot: &Snapshot) -> bool {
        let identity = snapshot.identity.as_deref();
        let own = [
            snapshot.vm_name.as_deref(),
            identity.map(|vm| vm.name.as_str()),
            identity.map(|vm| vm.computer_name.as_str()),
            Some("localhost"),
        ];
        own.into_iter()
            .flatten()
            .any(|name| name.eq_ignore_ascii_case(host))
            || self.patterns.iter().any(|pattern| {
                let domain = pattern.strip_prefix('*');
                domain.map_or(pattern == host, |domain| host.ends_with(domain))
            })
    }
}

fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HOST, HeaderValue};

    use super::*;
    use crate::outputs::web::fixtures;

    fn is_allowed(names: &[&str], target: &str, hosts: &[&str]) -> bool {
        let mut allowed = AllowedHosts::default();
        for name in names {
            allowed.add(name).unwrap();
        }
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        let mut snapshot = fixtures::snapshot_after(&[]);
        snapshot.vm_name = Some("vmss_7".into());
        allowed.allows(&target.parse().unwrap(), &headers, &snapshot)
    }

    #[test]
    fn addresses_localhost_and_the_name_of_the_vm_are_allowed() {
        for host in [
            "10.0.0.4",
            "10.0.0.4:10169",
            "[::1]:10169",
            "[fe80::1]",
            "localhost:10169",
            "LOCALHOST.",
            "vmss_7:10169",
            "VMSS_7",
            "",
        ] {
            assert!(is_allowed(&[], "/", &[host]), "{host}");
        }
        assert!(is_allowed(&[], "/", &[]), "HTTP/1.0");
    }

    #[test]
    fn other_names_are_refused() {
        for host in [
            "rebind.example",
            "rebind.example:10169",
            "localhost.example",
            "vmss_7.example",
            "127.0.0.1.example",
            "user@rebind.example",
            "a b",
            "[::1",
        ] {
            assert!(!is_allowed(&[], "/", &[host]), "{host}");
        }
        assert!(!is_allowed(&[], "/", &["10.0.0.4", "10.0.0.4"]));
        assert!(!is_allowed(&[], "http://rebind.example/", &["10.0.0.4"]));
    }

    #[test]
    fn flag_allows_names_domains_or_everything() {
        let names = ["Exporter.Example.com", "*.svc.cluster.local"];
        assert!(is_allowed(&names, "/", &["exporter.example.com:443"]));
        assert!(is_allowed(&names, "/", &["events.ns.svc.cluster.local"]));
        assert!(!is_allowed(&names, "/", &["svc.cluster.local"]));
        assert!(!is_allowed(&names, "/", &["other.example.com"]));
        assert!(is_allowed(&["*"], "/", &["other.example.com"]));
        for wrong in ["", "a:1", "*x", "*.", "http://a", "a b", "a/*"] {
            assert!(AllowedHosts::default().add(wrong).is_err(), "{wrong}");
        }
    }
}
