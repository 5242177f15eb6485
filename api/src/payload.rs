//! Taking a request's body off the wire: JSON by its own word, no longer than 64 KiB, in time.

use crate::problem::{Code, Fault, Problem};
use axum::body::Body;
use futures_util::StreamExt;
use http::{HeaderMap, header};
use std::time::Duration;
use tokio::time::timeout;

/// The longest body, in bytes.
pub const LONGEST: usize = 64 * 1024;

/// How much of a body that is too long is still read, and thrown away, so that a client that sends
/// first and listens afterwards gets to hear why; in bytes.
const DISCARDED: usize = 1024 * 1024;

/// Reads the body of a request with these headers.
///
/// # Errors
/// 415 when it is not said to be JSON, 413 when it is too long, 408 when it takes longer than
/// `patience`, 400 when it breaks off.
pub async fn read(headers: &HeaderMap, body: Body, patience: Duration) -> Result<Vec<u8>, Problem> {
    if !is_json(headers) {
        return Err(Problem::new(Code::UnsupportedMediaType, "this path takes Content-Type: application/json"));
    }
    let late = |_| Problem::new(Code::RequestTimeout, "the body did not arrive in time; nothing was stored");
    timeout(patience, collect(body)).await.map_err(late)?
}

async fn collect(body: Body) -> Result<Vec<u8>, Problem> {
    let (mut collected, mut length) = (Vec::new(), 0);
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Problem::invalid(vec![broken_off()]))?;
        length += piece.len();
        if length <= LONGEST {
            collected.extend_from_slice(&piece);
        } else if length > DISCARDED {
            break;
        }
    }
    if length > LONGEST {
        return Err(Problem::new(Code::PayloadTooLarge, "the body is longer than 65536 bytes"));
    }
    Ok(collected)
}

fn broken_off() -> Fault {
    Fault::in_body(&[], "malformed_json", "the body breaks off")
}

/// One header that names `application/json`, whatever its parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return false;
    };
    let kind = line.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use http::HeaderValue;
    use std::convert::Infallible;

    fn json() -> HeaderMap {
        typed("application/json")
    }

    fn typed(kind: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_str(kind).unwrap())])
    }

    async fn code_of(headers: HeaderMap, body: Body) -> Option<Code> {
        read(&headers, body, Duration::from_millis(50)).await.err().map(|problem| problem.code())
    }

    #[tokio::test]
    async fn json_with_parameters_is_json() {
        for kind in ["application/json", "Application/JSON; charset=utf-8", "application/json;x=y"] {
            assert_eq!(code_of(typed(kind), Body::empty()).await, None, "{kind}");
        }
        for kind in ["text/json", "application/jsonp", "application/x-www-form-urlencoded", ""] {
            assert_eq!(code_of(typed(kind), Body::empty()).await, Some(Code::UnsupportedMediaType), "{kind}");
        }
        assert_eq!(code_of(HeaderMap::new(), Body::empty()).await, Some(Code::UnsupportedMediaType));
    }

    #[tokio::test]
    async fn a_body_of_64_kib_is_taken_and_one_byte_more_is_not() {
        assert_eq!(code_of(json(), Body::from(vec![b' '; LONGEST])).await, None);
        assert_eq!(code_of(json(), Body::from(vec![b' '; LONGEST + 1])).await, Some(Code::PayloadTooLarge));
    }

    #[tokio::test]
    async fn an_endless_body_is_not_read_to_its_end() {
        let endless = stream::repeat_with(|| Ok::<_, Infallible>(vec![b' '; 1024]));
        assert_eq!(code_of(json(), Body::from_stream(endless)).await, Some(Code::PayloadTooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_never_ends_in_time_is_given_up() {
        let silent = stream::pending::<Result<Vec<u8>, Infallible>>();
        assert_eq!(code_of(json(), Body::from_stream(silent)).await, Some(Code::RequestTimeout));
    }
}
