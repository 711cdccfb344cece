//! The last document, by which the next response is recognized as the same one.

use hyper::header::HeaderValue;

/// A longer body is not kept in memory between two polls, and parsed each time.
const MAX_KEPT_BYTES: usize = 512 * 1024;

#[derive(Debug, Default)]
pub(super) struct KnownDocument {
    pub(super) etag: Option<HeaderValue>,
    /// Empty if there is none, or if it is too long.
    body: Vec<u8>,
    pub(super) incarnation: Option<i64>,
}

impl KnownDocument {
    pub(super) fn has_body(&self, body: &[u8]) -> bool {
        !body.is_empty() && self.body == body
    }

    pub(super) fn replace_body(&mut self, mut body: Vec<u8>) {
        if body.len() > MAX_KEPT_BYTES {
            body = Vec::new();
        }
        body.shrink_to_fit();
        self.body = body;
    }

    /// The next response is not the same. The incarnation remains that of the last document.
    pub(super) fn forget(&mut self) {
        self.etag = None;
        self.body = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_body_is_not_kept() {
        let mut known = KnownDocument::default();
        known.replace_body(b"a".to_vec());
        let longest = vec![b' '; MAX_KEPT_BYTES];
        known.replace_body(longest.clone());
        assert!(known.has_body(&longest));
        let long = vec![b' '; MAX_KEPT_BYTES + 1];
        known.replace_body(long.clone());
        assert!(!known.has_body(&long));
        assert!(!known.has_body(&longest));
        assert_eq!(known.body.capacity(), 0);
    }
}
