//! The causes under the errors of HTTP libraries.

use std::{error::Error, io};

use super::tls::is_authority;

/// An error and its causes, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&inner| {
        // The source of an I/O error is the source of the error that it wraps, which would be skipped.
        match inner
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(wrapped) => Some(wrapped),
            None => inner.source(),
        }
    })
}

/// The innermost error, as reported by the system or the peer.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let Some(cause) = causes(error).last() else {
        return error.to_string();
    };
    if cause.downcast_ref().is_some_and(is_authority) {
        return "the certificate of the server is self-signed: give its own file as that of the certificate authorities"
            .to_owned();
    }
    if let Some(rustls::Error::InvalidMessage(_)) = cause.downcast_ref() {
        return format!("the port does not speak TLS, which https needs ({cause}): is it http?");
    }
    let text = cause.to_string();
    // Its type is private, and it has no status.
    if text.starts_with("tunnel error: ") {
        return format!(
            "the proxy does not connect to the server ({text}): check its rules and password, or set NO_PROXY"
        );
    }
    text
}

pub(crate) fn is_tls(error: &(dyn Error + 'static)) -> bool {
    error.is::<rustls::Error>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_cause_looks_into_io_errors() {
        let tls = rustls::Error::HandshakeNotComplete;
        let nested = io::Error::other(io::Error::other(tls.clone()));
        assert_eq!(root_cause(&nested), tls.to_string());
        assert!(causes(&nested).any(is_tls));
        assert_eq!(root_cause(&tls), tls.to_string());
    }
}
