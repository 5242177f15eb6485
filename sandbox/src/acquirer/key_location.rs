//! Where an acquirer looks for the key of a charge.

use std::fmt;
use std::str::FromStr;

use http::HeaderName;
use serde::{Deserialize, Serialize};

/// The members of a charge request: none of them can be the key's.
const TAKEN: [&str; 4] = ["reference", "amount_minor", "currency", "payment_method_id"];

/// Where a POST bears its key: `header:NAME`, or `body:MEMBER` for a member of the JSON body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyLocation {
    place: Place,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Header,
    Body,
}

impl KeyLocation {
    /// The header, if it is one.
    pub(super) fn header(&self) -> Option<&str> {
        (self.place == Place::Header).then_some(self.name.as_str())
    }

    /// The member of the body, if it is one.
    pub(super) fn member(&self) -> Option<&str> {
        (self.place == Place::Body).then_some(self.name.as_str())
    }
}

impl Default for KeyLocation {
    fn default() -> Self {
        KeyLocation { place: Place::Header, name: "Idempotency-Key".to_owned() }
    }
}

/// Says what a key location looks like.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no place for a key; write header:NAME, or body:MEMBER with a member that no charge request has")]
pub struct InvalidKeyLocation(String);

impl FromStr for KeyLocation {
    type Err = InvalidKeyLocation;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (place, name) = match text.split_once(':') {
            Some(("header", name)) if name.parse::<HeaderName>().is_ok() => (Place::Header, name),
            Some(("body", name)) if !name.is_empty() && !TAKEN.contains(&name) => (Place::Body, name),
            _ => return Err(InvalidKeyLocation(text.to_owned())),
        };
        Ok(KeyLocation { place, name: name.to_owned() })
    }
}

impl fmt::Display for KeyLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Header => write!(f, "header:{}", self.name),
            Place::Body => write!(f, "body:{}", self.name),
        }
    }
}

impl TryFrom<String> for KeyLocation {
    type Error = InvalidKeyLocation;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<KeyLocation> for String {
    fn from(location: KeyLocation) -> String {
        location.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_looked_for_in_a_header_or_in_a_member_of_its_own() {
        for text in ["header:Idempotency-Key", "header:X-GCS-Idempotence-Key", "body:idempotency_key"] {
            assert_eq!(text.parse::<KeyLocation>().unwrap().to_string(), text);
        }
        for text in ["Idempotency-Key", "header:", "header:a b", "body:", "body:reference", "query:key"] {
            assert!(text.parse::<KeyLocation>().is_err(), "{text}");
        }
    }
}
