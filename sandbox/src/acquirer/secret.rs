//! A text that is never shown.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// What is shown instead.
const HIDDEN: &str = "(secret)";

/// What webhooks are signed with. It shows as `(secret)`, in JSON too.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// What was shown of a secret comes back in a change of the settings that leaves it alone.
    pub(super) fn is_hidden(&self) -> bool {
        self.0 == HIDDEN
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Secret {
        Secret(text.to_owned())
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(HIDDEN)
    }
}
