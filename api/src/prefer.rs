//! `Prefer: wait=N` (RFC 7240): how long a client is willing to wait. What cannot be read is ignored,
//! as the RFC asks.

use http::{HeaderMap, HeaderName};

/// The request header.
pub const PREFER: HeaderName = HeaderName::from_static("prefer");
/// The response header: what was honoured.
pub const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// How many seconds the client is willing to wait, `most` at the longest; `None` when it does not say.
#[must_use]
pub fn wait_s(headers: &HeaderMap, most: u32) -> Option<u32> {
    let lines = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
    // Of a repeated preference only the first counts.
    let value = lines.flat_map(|line| split(line, ',')).find_map(|preference| value_of(preference, "wait"))?;
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    // A number too large to be read is still a wish to wait longest.
    is_number.then(|| value.parse::<u32>().unwrap_or(most).min(most))
}

/// The value of `name` in one preference, its parameters left out.
fn value_of<'a>(preference: &'a str, name: &str) -> Option<&'a str> {
    let head = split(preference, ';').next()?;
    let (found, value) = head.split_once('=').unwrap_or((head, ""));
    let value = value.trim();
    let unquoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    found.trim().eq_ignore_ascii_case(name).then_some(unquoted)
}

/// Splits at `separator`, not inside quoted strings.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c: char| {
        let ends = c == separator && !quoted;
        quoted ^= c == '"' && !escaped;
        escaped = quoted && c == '\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn wait(lines: &[&str]) -> Option<u32> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(PREFER, HeaderValue::from_str(line).unwrap());
        }
        wait_s(&headers, 8)
    }

    #[test]
    fn the_wish_is_found_among_others() {
        for line in ["wait=5", "Wait = 5", "wait=\"5\"", "respond-async, wait=5", "foo; bar=\"a,wait=1\", wait=5; x=y"]
        {
            assert_eq!(wait(&[line]), Some(5), "{line:?}");
        }
        assert_eq!(wait(&["respond-async", "wait=5"]), Some(5));
        assert_eq!(wait(&["wait=0"]), Some(0));
    }

    #[test]
    fn it_is_capped() {
        assert_eq!(wait(&["wait=60"]), Some(8));
        assert_eq!(wait(&["wait=99999999999999999999"]), Some(8));
    }

    #[test]
    fn the_first_of_two_counts() {
        assert_eq!(wait(&["wait=3, wait=5"]), Some(3));
        assert_eq!(wait(&["wait=3", "wait=5"]), Some(3));
    }

    #[test]
    fn what_cannot_be_read_is_ignored() {
        for line in ["", "wait", "wait=", "wait=-1", "wait=1.5", "wait=5s", "waiting=5", "x=\"wait=5\"", "x; wait=5"] {
            assert_eq!(wait(&[line]), None, "{line:?}");
        }
    }
}
