//! The id of one HTTP request: in its answer, in every log line about it, in every problem.

use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

/// The header that bears it, both ways.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is taken over from a client, in bytes.
const LONGEST: usize = 128;

/// The id of one HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(String);

impl RequestId {
    /// The client's own id where it is sane (1–128 of letters, digits, `.`, `_` and `-`), else a new one.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(X_REQUEST_ID).and_then(|value| value.to_str().ok()).filter(|id| is_sane(id));
        Self(given.map_or_else(|| Uuid::now_v7().to_string(), str::to_owned))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The header's value.
    #[must_use]
    pub fn to_header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
    }
}

/// It is written to logs and answers as it is, so it must not be able to imitate anything there.
fn is_sane(id: &str) -> bool {
    (1..=LONGEST).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> RequestId {
        RequestId::of(&HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_bytes(value.as_bytes()).unwrap())]))
    }

    #[test]
    fn a_sane_id_of_the_client_is_kept() {
        assert_eq!(of("checkout-7f.3_A").as_str(), "checkout-7f.3_A");
    }

    #[test]
    fn any_other_is_replaced() {
        for insane in ["", "a b", "a\"b", "a#b", "é", &"a".repeat(129)] {
            assert!(Uuid::parse_str(of(insane).as_str()).is_ok(), "{insane:?}");
        }
    }
}
