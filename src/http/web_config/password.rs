//! Password hashes of bcrypt.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;

/// bcrypt's own base64. Some programs set the bits of the last character that belong to no byte.
const BCRYPT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::BCRYPT,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone),
);
/// All variants differ in the bugs of old implementations, none of which is repeated here.
const PREFIXES: [&str; 4] = ["$2a$", "$2b$", "$2x$", "$2y$"];
const MIN_COST: u32 = 4;
const MAX_COST: u32 = 31;
const SALT_CHARS: usize = 22;
const LENGTH: usize = 60;
/// Further bytes of a password have no effect.
const MAX_PASSWORD_BYTES: usize = 72;

/// A hash such as `$2y$10$…`.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PasswordHash {
    /// As written.
    text: String,
    cost: u32,
    salt: [u8; 16],
    /// The last byte of the output of bcrypt is not part of a hash.
    digest: [u8; 23],
}

impl TryFrom<String> for PasswordHash {
    type Error = String;

    /// The error does not contain the text, which may be a password.
    fn try_from(text: String) -> Result<Self, String> {
        let malformed = || {
            "the value is not a bcrypt hash: use one of 60 characters that begins with $2a$, $2b$, $2x$ or $2y$, such as from htpasswd -nB"
                .to_owned()
        };
        let is_known = PREFIXES.iter().any(|prefix| text.starts_with(prefix));
        if !is_known || text.len() != LENGTH {
            return Err(malformed());
        }
        let (_, rest) = text.split_at_checked(4).ok_or_else(malformed)?;
        let (cost, rest) = rest.split_once('$').ok_or_else(malformed)?;
        let is_number = cost.len() == 2 && cost.bytes().all(|byte| byte.is_ascii_digit());
        let cost: u32 = cost.parse().map_err(|_| malformed())?;
        if !is_number {
            return Err(malformed());
        }
        if !(MIN_COST..=MAX_COST).contains(&cost) {
            return Err(format!(
                "the cost is {cost}: use one from {MIN_COST} to {MAX_COST}"
            ));
        }
        let (salt, digest) = rest.split_at_checked(SALT_CHARS).ok_or_else(malformed)?;
        Ok(Self {
            cost,
            salt: decode(salt).ok_or_else(malformed)?,
            digest: decode(digest).ok_or_else(malformed)?,
            text,
        })
    }
}

impl PasswordHash {
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Takes 2^cost steps, which are about 80 ms at a cost of 10.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let mut key: Vec<u8> = password.iter().copied().chain([0]).collect();
        key.truncate(MAX_PASSWORD_BYTES);
        let output = bcrypt::bcrypt(self.cost, self.salt, &key);
        // All bytes are compared, so that the time does not tell how many are equal.
        let differing = self.digest.iter().zip(output);
        differing.fold(0, |bits, (left, right)| bits | (left ^ right)) == 0
    }
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    BCRYPT_BASE64.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAVE: &str = "$2y$10$2UXri9cIDdgeKjBo4Rlpx.U3ZLDV8X1IxKmsfOvhcM5oXQt/mLmXq";

    fn parse(text: &str) -> Result<PasswordHash, String> {
        PasswordHash::try_from(text.to_owned())
    }

    #[test]
    fn passwords_are_verified_in_all_variants() {
        // Of exporter-toolkit and of jBCrypt.
        for (hash, password) in [
            (DAVE, "dave123"),
            (
                "$2a$06$DCq7YPn5Rq63x1Lad4cll.TV4S6ytwfsfvkgY8jIucDrjc8deX1s.",
                "",
            ),
            (
                "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe",
                "a",
            ),
        ] {
            for variant in ["a", "b", "x", "y"] {
                let mut hash = hash.to_owned();
                hash.replace_range(2..3, variant);
                let hash = parse(&hash).unwrap();
                assert!(hash.verify(password.as_bytes()), "{password}");
                assert!(!hash.verify(format!("{password}x").as_bytes()));
                assert!(!hash.verify(password.to_uppercase().as_bytes()) || password.is_empty());
            }
        }
    }

    #[test]
    fn only_the_first_72_bytes_of_a_password_count() {
        let hash = |password: &[u8]| {
            let mut key = password.to_vec();
            key.truncate(72);
            let digest = bcrypt::bcrypt(4, [7; 16], &key);
            let encoded = |bytes: &[u8]| BCRYPT_BASE64.encode(bytes);
            let (salt, digest) = (encoded(&[7; 16]), encoded(&digest[..23]));
            let trim = |text: String| text.trim_end_matches('=').to_owned();
            parse(&format!("$2b$04${}{}", trim(salt), trim(digest))).unwrap()
        };
        let hash = hash(&[b'x'; 72]);
        assert!(hash.verify(&[b'x'; 72]) && hash.verify(&[b'x'; 100]));
        assert!(!hash.verify(&[b'x'; 71]));
    }

    #[test]
    fn spare_bits_of_the_salt_are_ignored() {
        let odd = DAVE.replace("4Rlpx.U3", "4Rlpx/U3");
        assert_ne!(odd, DAVE);
        assert!(parse(&odd).unwrap().verify(b"dave123"));
    }

    #[test]
    fn other_texts_are_refused_without_repeating_them() {
        let costs = |cost: &str| DAVE.replacen("$10$", &format!("${cost}$"), 1);
        for (text, words) in [
            (String::new(), "not a bcrypt hash"),
            ("secret".to_owned(), "not a bcrypt hash"),
            (DAVE.replacen("$2y$", "$2z$", 1), "not a bcrypt hash"),
            (DAVE.replacen("$2y$", "$3y$", 1), "not a bcrypt hash"),
            (format!("{DAVE}x"), "not a bcrypt hash"),
            (DAVE.chars().skip(1).collect(), "not a bcrypt hash"),
            (DAVE.replace("mLmXq", "mLm!q"), "not a bcrypt hash"),
            (DAVE.replace("mLmXq", "mLmä"), "not a bcrypt hash"),
            (costs("+9"), "not a bcrypt hash"),
            (costs("1x"), "not a bcrypt hash"),
            (costs("03"), "cost is 3:"),
            (costs("32"), "cost is 32"),
            (costs("99"), "cost is 99"),
        ] {
            let error = parse(&text).err().unwrap();
            assert!(error.contains(words), "{text}: {error}");
            assert!(text.is_empty() || !error.contains(&text), "{error}");
        }
    }
}
