//! The acquirer as the domain sees it: what it promises ([`Contract`]) and what its answers mean
//! ([`plain`] and [`stripe`], by wire form). The network is the workers' business.

pub mod amount;
mod meaning;
pub mod plain;
pub mod stripe;
pub mod webhook;

pub use meaning::{MapRule, Meaning, Signature, default_map};

use crate::payment::life::Outcome;
use crate::review::Reason;
use crate::text::clean;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::time::Duration;
use uuid::Uuid;

/// Longest code kept from an acquirer, in characters.
const CODE_CHARS: usize = 100;
/// Longest message kept from an acquirer, in characters.
const MESSAGE_CHARS: usize = 500;

/// An enum of words, the same in the configuration, in reports and in code.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name { $($(#[$of])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}

words! {
    /// Whether the acquirer recognises a repeat by our key.
    Keys {
        /// A repeat with the same key never charges again, within the window and the scope.
        Honoured = "honoured",
        /// Every POST is a new charge.
        None = "none",
    }
}

words! {
    /// How a charge can be found again.
    Lookup {
        /// By the idempotency key.
        ByKey = "by_key",
        /// By our reference.
        ByReference = "by_reference",
        /// Not at all: the only question is the same request again.
        None = "none",
    }
}

words! {
    /// What a repeat brings back.
    #[derive(Default)]
    Replay {
        /// The first answer, whatever it was, errors too.
        Frozen = "frozen",
        /// The charge as it is now.
        Live = "live",
        /// The first answer if it was a success; else the request is executed anew. What protects least.
        #[default]
        Reexecute = "reexecute",
    }
}

words! {
    /// How far a key reaches: a repeat outside is a new charge.
    #[derive(Default)]
    Scope {
        /// One merchant of ours at the acquirer.
        Merchant = "merchant",
        /// The account behind the credential.
        #[default]
        Account = "account",
        /// One address of the API.
        Endpoint = "endpoint",
        /// One data centre of the acquirer's: the host of its address.
        Region = "region",
    }
}

words! {
    /// The characters that an acquirer takes in a key. Ours are 32 hexadecimal digits.
    #[derive(Default)]
    Charset {
        /// 0x21 to 0x7E.
        #[default]
        VisibleAscii = "visible_ascii",
        /// Letters and digits.
        Alphanumeric = "alphanumeric",
    }
}

/// Where the acquirer looks for the key: `header:NAME` or `body:MEMBER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyLocation {
    /// A header.
    Header(String),
    /// A member of the JSON body.
    Body(String),
}

impl Default for KeyLocation {
    fn default() -> Self {
        Self::Header("Idempotency-Key".to_owned())
    }
}

impl std::fmt::Display for KeyLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Body(member) => write!(f, "body:{member}"),
        }
    }
}

impl Serialize for KeyLocation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KeyLocation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let token =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        match text.split_once(':') {
            Some(("header", name)) if token(name) => Ok(Self::Header(name.to_owned())),
            Some(("body", member)) if token(member) => Ok(Self::Body(member.to_owned())),
            _ => Err(serde::de::Error::custom(format!("{text:?} is neither \"header:NAME\" nor \"body:MEMBER\""))),
        }
    }
}

/// What an acquirer promises about repeating a charge; [`may_send`](crate::payment::sending::may_send)
/// enforces it.
#[derive(Clone, Copy, Debug)]
pub struct Contract {
    /// Whether keys are honoured.
    pub keys: Keys,
    /// For how long a key is remembered, already less the safety margin. `None`: unknown, and then
    /// nothing is ever resent.
    pub window: Option<Duration>,
    /// What a repeat brings back.
    pub replay: Replay,
    /// Whether a charge that was cut off may be sent once more at once, where the rest protects it.
    pub resend_after_timeout: bool,
    /// How a charge is found.
    pub lookup: Lookup,
    /// For this long after a possible send, a lookup that finds nothing proves nothing.
    pub absence_final_after: Duration,
    /// For this long after the first send the machine keeps asking; then a person decides.
    pub give_up_after: Duration,
}

impl Contract {
    /// Whether the acquirer can be asked what became of a charge.
    #[must_use]
    pub fn can_be_asked(&self) -> bool {
        self.lookup != Lookup::None
    }

    /// When the machine sends a payment again that may have left, in words.
    #[must_use]
    pub fn resends(&self) -> &'static str {
        let (keys, executes_anew) =
            (self.keys == Keys::Honoured && self.window.is_some(), self.replay == Replay::Reexecute);
        match (keys, executes_anew, self.lookup) {
            (false, ..) | (true, true, Lookup::None) => "never",
            (true, true, _) => "when absent",
            (true, false, Lookup::None) => "instead of asking",
            (true, false, _) if self.resend_after_timeout => "at once, and when absent",
            (true, false, _) => "when absent",
        }
    }
}

/// The key and the reference that the acquirer sees: the payment's UUID as 32 hex digits. It fits
/// every provider's limit and survives the purge and reuse of a client's key.
#[must_use]
pub fn provider_key(payment_id: Uuid) -> String {
    payment_id.simple().to_string()
}

/// What a success must echo.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// [`provider_key`] of the payment.
    pub reference: &'a str,
    /// What was asked for, as the acquirer counts it: see [`amount`].
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: &'a str,
}

/// What a call to the acquirer came to, ready to be recorded. Texts are cleaned and cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status, when there was an answer at all.
    pub http_status: Option<u16>,
    /// What it means.
    pub outcome: Outcome,
    /// The acquirer's id of the charge, where it told one.
    pub transaction_id: Option<String>,
    /// The acquirer's decline or error code, or our own word for what went wrong.
    pub code: Option<String>,
    /// The acquirer's message, or our own sentence.
    pub message: Option<String>,
    /// Set when only a person can tell what it means; the outcome is then [`Outcome::Unknown`].
    pub conflict: Option<Reason>,
}

impl Answer {
    /// An answer that proves nothing, with our own word and sentence for what happened.
    #[must_use]
    pub fn unknown(http_status: Option<u16>, code: &str, message: &str) -> Self {
        Self {
            http_status,
            outcome: Outcome::Unknown,
            transaction_id: None,
            code: Some(clean(code, CODE_CHARS)),
            message: Some(clean(message, MESSAGE_CHARS)),
            conflict: None,
        }
    }

    /// Whether the acquirer answered anything, whatever it said.
    #[must_use]
    pub const fn was_heard(&self) -> bool {
        self.http_status.is_some()
    }
}

/// A text for people, in whatever shape the acquirer sent it: it must not decide whether the charge
/// around it can be read. Lone surrogates, which no Rust string can hold, stay as their escapes.
#[derive(Debug, Deserialize)]
#[serde(from = "Box<RawValue>")]
struct ForeignText(String);

impl From<Box<RawValue>> for ForeignText {
    fn from(raw: Box<RawValue>) -> Self {
        Self(serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().trim_matches('"').to_owned()))
    }
}

/// A charge that bears our reference or key and is not what we asked for: only a person can tell.
fn conflicted(status: u16, transaction_id: &str, what: &str) -> Answer {
    let transaction_id = clean(transaction_id, CODE_CHARS);
    let message = format!("the acquirer's charge {transaction_id} does not match the payment: {what}");
    Answer { conflict: Some(Reason::Conflicted), ..Answer::unknown(Some(status), "conflicted", &message) }
}

/// Several approved charges for one payment: money moved more than once.
fn duplicate<'a>(status: u16, transaction_ids: impl Iterator<Item = &'a str>) -> Answer {
    let ids: Vec<String> = transaction_ids.map(|id| clean(id, CODE_CHARS)).collect();
    let message = format!("the acquirer holds {} approved charges for this payment: {}", ids.len(), ids.join(", "));
    Answer {
        conflict: Some(Reason::DuplicateAtProvider),
        ..Answer::unknown(Some(status), "duplicate_at_provider", &message)
    }
}
