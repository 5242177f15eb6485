//! Credentials: drawn from 256 random bits, shown once, stored as their SHA-256.

use rand::Rng;
use sha2::{Digest, Sha256};

/// Characters after the prefix that are kept readable.
const READABLE: usize = 6;

/// A new credential.
#[derive(Clone)]
pub struct Credential {
    text: String,
    /// How much of it is kept readable.
    readable: usize,
}

impl Credential {
    /// Draws 256 random bits. The prefix lets leak scanners and people recognise what it is for.
    pub(crate) fn draw(prefix: &str) -> Self {
        let mut secret = [0_u8; 32];
        rand::rng().fill_bytes(&mut secret);
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text: format!("{prefix}{hex}"), readable: prefix.len() + READABLE }
    }

    /// The text to show, once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The beginning that lists show.
    pub(crate) fn readable(&self) -> &str {
        &self.text[..self.readable]
    }

    /// What is stored of it.
    pub(crate) fn hash(&self) -> Vec<u8> {
        hash(&self.text)
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credential({}…)", self.readable())
    }
}

/// What is stored of a credential. Looking one up by this hash tells by its duration nothing about any
/// stored one.
pub(crate) fn hash(credential: &str) -> Vec<u8> {
    Sha256::digest(credential).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_recognisable_and_never_in_a_log() {
        let drawn = Credential::draw("payonce_xx_");
        assert_eq!((drawn.reveal().len(), drawn.readable().len()), (11 + 64, 11 + 6));
        assert!(drawn.reveal().starts_with(drawn.readable()));
        assert!(!format!("{drawn:?}").contains(drawn.reveal()));
        assert_ne!(drawn.reveal(), Credential::draw("payonce_xx_").reveal());
    }
}
