//! W3C trace context: which trace a POST belongs to. It is stored with the payment and goes on with
//! every call and event.

use http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// `00-<32 hex>-<16 hex>-<2 hex>`.
const LENGTH: usize = 55;

/// The valid `traceparent` of a request. As the standard asks, one that is not is dropped without a
/// word, and one of a later version is read, and handed on, as version 00.
#[must_use]
pub fn of(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(TRACEPARENT).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => read(line.to_str().ok()?),
        _ => None,
    }
}

fn read(line: &str) -> Option<String> {
    let (known, later) = line.split_at_checked(LENGTH)?;
    let [version, trace, parent, flags] = known.split('-').collect::<Vec<_>>().try_into().ok()?;
    let hex =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let named = |text: &str, length| hex(text, length) && text.bytes().any(|byte| byte != b'0');
    let ends = later.is_empty() || (version != "00" && later.starts_with('-'));
    let valid = hex(version, 2) && version != "ff" && named(trace, 32) && named(parent, 16) && hex(flags, 2) && ends;
    valid.then(|| format!("00-{trace}-{parent}-{flags}"))
}

#[cfg(test)]
mod tests {
    use super::read;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_one_is_kept() {
        assert_eq!(read(&format!("00-{TRACE}")), Some(format!("00-{TRACE}")));
    }

    #[test]
    fn a_later_version_is_read_as_version_00() {
        assert_eq!(read(&format!("01-{TRACE}-what-comes")), Some(format!("00-{TRACE}")));
        assert_eq!(read(&format!("01-{TRACE}what-comes")), None);
    }

    #[test]
    fn anything_else_is_dropped() {
        let zero_trace = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let zero_parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        for line in ["", "00", zero_trace, zero_parent, &format!("ff-{TRACE}"), &format!("00-{TRACE}-x")] {
            assert_eq!(read(line), None, "{line:?}");
        }
        assert_eq!(read(&format!("00-{}", TRACE.to_uppercase())), None);
        assert_eq!(read(&format!("é{TRACE}é{TRACE}")), None);
    }
}
