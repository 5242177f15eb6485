//! The magic payment methods: the one table of what the acquirer can be asked to do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Builds the enum, its list, its ids and its descriptions from one table.
macro_rules! methods {
    ($( #[doc = $meaning:literal] $variant:ident = $id:literal, )+) => {
        /// What a payment method makes the acquirer do, by its magic `payment_method_id`.
        ///
        /// A fault acts on the first POST of a key only, unless
        /// [`Settings::faults_repeat`](super::Settings::faults_repeat) is on; a repeat gets what
        /// [`Replay`](super::Replay) says. A payment method that is not in this list behaves like `pm_ok`.
        ///
        /// In [`Settings::faults`](super::Settings::faults) a method bears its name without
        /// `pm_`; that is also its serde form.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Method { $( #[doc = $meaning] $variant, )+ }

        impl Method {
            /// Every method, in the order of the table.
            pub const ALL: &'static [Method] = &[ $( Method::$variant, )+ ];

            /// The magic `payment_method_id`.
            pub const fn id(self) -> &'static str {
                match self { $( Method::$variant => $id, )+ }
            }

            /// What it does, in one sentence.
            pub fn meaning(self) -> &'static str {
                let line = match self { $( Method::$variant => $meaning, )+ };
                line.trim_start()
            }
        }
    };
}

methods! {
    /// Approved at once.
    Ok = "pm_ok",
    /// Declined by the issuer: 402, decline code `insufficient_funds`.
    Declined = "pm_declined",
    /// Refused as a request: 422, no money can move.
    Rejected = "pm_rejected",
    /// Approved, but the answer is withheld for `hold_ms`; booked after `book_after_ms`.
    TimeoutAfterCharge = "pm_timeout_after_charge",
    /// The answer is withheld for `hold_ms` and nothing is booked.
    TimeoutBeforeCharge = "pm_timeout_before_charge",
    /// Approved, but the TCP connection is reset without an answer.
    Reset = "pm_reset",
    /// Approved, but answered with 500.
    ServerErrorAfterCharge = "pm_500_after_charge",
    /// 503, nothing is booked.
    Unavailable = "pm_503",
    /// 429 with `Retry-After: 1`, nothing is booked.
    TooManyRequests = "pm_429",
    /// Answered at once like a repeat in flight (409 `idempotency_key_in_use`), approved 300 ms later.
    InFlight = "pm_409_in_flight",
    /// Approved, but the body is not JSON.
    Malformed = "pm_malformed",
    /// Approved, but the connection closes in the middle of the body.
    Truncated = "pm_truncated",
    /// Approved, but answered with a 200 HTML page.
    Html = "pm_html",
    /// Approved, but answers and look-ups show one minor unit too much.
    WrongAmount = "pm_wrong_amount",
    /// Approved, but answers and look-ups show another currency.
    WrongCurrency = "pm_wrong_currency",
    /// Approved, but answers and look-ups show another reference.
    WrongReference = "pm_wrong_reference",
    /// 202 `processing`, approved after `processing_ms`.
    ProcessingThenOk = "pm_processing_then_ok",
    /// 202 `processing`, and it stays so.
    ProcessingForever = "pm_processing_forever",
    /// Approved, but the connection is reset and the first `not_found_times` look-ups say 404.
    NotFoundThenOk = "pm_not_found_then_ok",
    /// Two approved charges under one key; every POST answers 500.
    DoubleCharge = "pm_double_charge",
    /// Approved, but the body comes at one byte per second.
    Trickle = "pm_trickle",
    /// 307 to another path, nothing is booked.
    Redirect = "pm_redirect",
    /// Approved, but the JSON body is 10 MB long.
    HugeBody = "pm_huge_body",
    /// Declined with a long message full of NUL, control characters and a lone surrogate.
    NulText = "pm_nul_text",
    /// Approved after two seconds.
    Slow = "pm_slow",
    /// Approved, but answered with an empty 200.
    EmptyBody = "pm_empty_body",
    /// Approved, but the JSON body is an array.
    ArrayBody = "pm_array_body",
    /// Approved, but answers and look-ups show the unknown status `paid_out`.
    NewStatus = "pm_new_status",
}

impl Method {
    /// The method of a `payment_method_id`, if it is a magic one.
    pub fn from_id(id: &str) -> Option<Method> {
        Method::ALL.iter().copied().find(|method| method.id() == id)
    }

    /// The name of the fault in [`Settings::faults`](super::Settings::faults).
    pub fn fault_name(self) -> &'static str {
        bare(self.id())
    }
}

fn bare(name: &str) -> &str {
    name.strip_prefix("pm_").unwrap_or(name)
}

/// Says which name is unknown and which ones exist.
#[derive(Debug, thiserror::Error)]
#[error("unknown fault `{0}`; known are {list}", list = fault_names())]
pub struct UnknownFault(String);

fn fault_names() -> String {
    let names: Vec<_> = Method::ALL.iter().map(|m| m.fault_name()).collect();
    names.join(", ")
}

impl FromStr for Method {
    type Err = UnknownFault;

    /// Takes the name of a fault, with or without `pm_`.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Method::ALL.iter().copied();
        all.find(|method| method.fault_name() == bare(name)).ok_or_else(|| UnknownFault(name.to_owned()))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.fault_name())
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(de::Error::custom)
    }
}
