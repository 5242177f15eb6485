//! Passwords: hashed with Argon2id, which is slow and hungry on purpose.

use super::OperatorError;
use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{Error, PasswordHasher, PasswordVerifier};
use std::fmt;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Each hash takes 19 MiB and a core: so many at once, whoever knocks at the door.
static PLACES: Semaphore = Semaphore::const_new(4);

/// A password that may be one. Never stored, shown or logged.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// The fewest characters.
    pub const SHORTEST: usize = 12;
    /// The most characters: what is longer was not typed by anybody.
    pub const LONGEST: usize = 1024;

    /// Takes a text that is long enough and on one line.
    ///
    /// # Errors
    /// [`OperatorError::PasswordTooShort`], [`OperatorError::BadPassword`].
    pub fn new(text: impl Into<String>) -> Result<Self, OperatorError> {
        let text = text.into();
        match text.chars().count() {
            length if length < Self::SHORTEST => Err(OperatorError::PasswordTooShort(length)),
            length if length > Self::LONGEST || text.chars().any(char::is_control) => Err(OperatorError::BadPassword),
            _ => Ok(Self(text)),
        }
    }

    /// Its hash with a new salt, as a PHC string.
    pub(super) async fn hash(&self) -> Result<String, HashError> {
        self.work(|password| Ok(Argon2::default().hash_password(password)?.to_string())).await
    }

    /// Whether a PHC string is of this password.
    pub(super) async fn is(&self, stored: String) -> Result<bool, HashError> {
        let verify =
            move |password: &[u8]| match Argon2::default().verify_password(password, &PasswordHash::new(&stored)?) {
                Err(Error::PasswordInvalid) => Ok(false),
                verified => verified.map(|()| true),
            };
        self.work(verify).await
    }

    /// Works on it where nobody waits for the thread.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&[u8]) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, HashError> {
        let password = self.0.clone();
        // Nobody closes the semaphore; without a place the work is done all the same.
        let place = PLACES.acquire().await;
        let work = move || {
            // Kept until the work ends, also when whoever waits for it has gone.
            let _place = place;
            work(password.as_bytes())
        };
        spawn_blocking(work).await.map_err(|_| HashError(Error::Internal))?.map_err(HashError)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// A password could not be hashed, or a stored hash not be read.
#[derive(Debug, thiserror::Error)]
#[error("a password cannot be hashed or compared: {0}")]
pub struct HashError(Error);

#[cfg(test)]
mod tests {
    use super::*;

    fn password(text: &str) -> Password {
        Password::new(text).unwrap()
    }

    #[tokio::test]
    async fn a_hash_is_of_one_password_and_salted() {
        let right = password("correct horse battery");
        let (hash, another) = (right.hash().await.unwrap(), right.hash().await.unwrap());
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert_ne!(hash, another);
        assert!(right.is(hash.clone()).await.unwrap());
        assert!(!password("correct horse batterz").is(hash).await.unwrap());
    }

    #[tokio::test]
    async fn a_hash_that_cannot_be_read_is_not_a_wrong_password() {
        assert!(password("correct horse battery").is("$argon2id$".to_owned()).await.is_err());
    }

    #[test]
    fn a_password_is_long_enough_and_on_one_line() {
        assert!(matches!(Password::new("elevenchars"), Err(OperatorError::PasswordTooShort(11))));
        assert!(matches!(Password::new(""), Err(OperatorError::PasswordTooShort(0))));
        for bad in ["correct horse\nbattery", "correct horse\0battery", &"x".repeat(1025)] {
            assert!(matches!(Password::new(bad), Err(OperatorError::BadPassword)), "{bad:?}");
        }
        // Characters, not bytes.
        assert!(Password::new("ééééééééééé").is_err());
        assert!(Password::new("éééééééééééé").is_ok());
    }

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(format!("{:?}", password("correct horse battery")), "Password(…)");
    }
}
