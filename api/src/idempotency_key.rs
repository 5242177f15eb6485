//! The `Idempotency-Key` header: exactly one key, or a 400 that says what is wrong with it.

use crate::problem::{Code, Problem};
use http::{HeaderMap, HeaderName};

/// The header.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest key, in bytes.
pub const LONGEST: usize = 255;

/// The key of a request, without the quotes it may have come in.
///
/// # Errors
/// `idempotency_key_missing` without a header; `idempotency_key_invalid` for two of them, and for
/// whatever [`parse`] does not take.
pub fn of(headers: &HeaderMap) -> Result<String, Problem> {
    let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Err(Problem::new(
            Code::IdempotencyKeyMissing,
            "this request needs the header Idempotency-Key, see the docs",
        )),
        // Also when both say the same: a proxy that doubles headers may join them differently next time.
        (Some(_), Some(_)) => Err(invalid("there is more than one Idempotency-Key header")),
        (Some(line), None) => parse(line.as_bytes()).map_err(invalid),
    }
}

fn invalid(why: &'static str) -> Problem {
    Problem::new(Code::IdempotencyKeyInvalid, why)
}

/// Reads a key: 1–255 of 0x21–0x7E, bare or as an RFC 8941 quoted string; both mean the same key.
///
/// # Errors
/// What is wrong, for people.
pub fn parse(line: &[u8]) -> Result<String, &'static str> {
    let key = match line.strip_prefix(b"\"") {
        Some(rest) => unquote(rest)?,
        None => line.to_vec(),
    };
    if key.is_empty() {
        return Err("the key is empty");
    }
    if key.len() > LONGEST {
        return Err("the key is longer than 255 bytes");
    }
    if !key.iter().all(u8::is_ascii_graphic) {
        return Err("the key holds a space or something else that is not visible ASCII");
    }
    String::from_utf8(key).map_err(|_| "the key is not ASCII")
}

/// The inside of a quoted string whose opening quote is taken off (RFC 8941, 4.2.5).
fn unquote(rest: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut key = Vec::with_capacity(rest.len());
    let mut bytes = rest.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if bytes.len() == 0 => return Ok(key),
            b'"' => return Err("something follows the closing quote of the key"),
            b'\\' => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => key.push(escaped),
                _ => return Err("a backslash in a quoted key escapes a quote or a backslash only"),
            },
            other => key.push(other),
        }
    }
    Err("the key's closing quote is missing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn code_of(lines: &[&[u8]]) -> Option<Code> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(line).unwrap());
        }
        of(&headers).err().map(|problem| problem.code())
    }

    #[test]
    fn bare_and_quoted_are_the_same_key() {
        assert_eq!(parse(b"8e03978e-40d5"), Ok("8e03978e-40d5".to_owned()));
        assert_eq!(parse(b"\"8e03978e-40d5\""), Ok("8e03978e-40d5".to_owned()));
        assert_eq!(parse(br#""a\"b\\c""#), Ok(r#"a"b\c"#.to_owned()));
        assert_eq!(parse(br#"a"b\c"#), Ok(r#"a"b\c"#.to_owned()));
    }

    #[test]
    fn the_longest_key_has_255_bytes_quotes_not_counted() {
        assert!(parse(&[b'k'; 255]).is_ok());
        assert!(parse(&[b'k'; 256]).is_err());
        assert!(parse(format!("\"{}\"", "k".repeat(255)).as_bytes()).is_ok());
        assert!(parse(format!("\"{}\"", "k".repeat(256)).as_bytes()).is_err());
        // 128 characters, 256 bytes.
        assert!(parse("é".repeat(128).as_bytes()).is_err());
    }

    #[test]
    fn what_is_not_one_key_is_refused() {
        for line in
            ["", " ", "a b", "\ta", "\"a b\"", "\"\"", "\"", "\"a", "\"a\"b", "\"a\" ", r#""a\n""#, r#""a\"#, "é"]
        {
            assert!(parse(line.as_bytes()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn no_header_and_two_headers_are_told_apart() {
        assert_eq!(code_of(&[]), Some(Code::IdempotencyKeyMissing));
        assert_eq!(code_of(&[b"a", b"a"]), Some(Code::IdempotencyKeyInvalid));
        assert_eq!(code_of(&[b""]), Some(Code::IdempotencyKeyInvalid));
        assert_eq!(code_of(&[b"\xff"]), Some(Code::IdempotencyKeyInvalid));
        assert_eq!(code_of(&[b"a"]), None);
    }
}
