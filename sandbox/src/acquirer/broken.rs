//! Answers that break HTTP, JSON or patience.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream;
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use tokio::time::sleep;

/// How much padding `pm_huge_body` sends, in bytes.
const HUGE_BYTES: usize = 10 * 1024 * 1024;
const PADDING: &[u8] = &[b'x'; 64 * 1024];

/// Marks a response that the connection must not send: it is reset instead.
#[derive(Clone, Copy)]
pub(super) struct Reset;

/// No answer: the connection is reset.
pub(super) fn reset() -> Response {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(Reset);
    response
}

/// Promises the whole body, sends half of it and closes.
pub(super) fn cut_short(body: Vec<u8>) -> Response {
    let length = body.len();
    let half = Bytes::from(body).slice(..length / 2);
    let parts = stream::unfold(Some(half), |half| async move {
        match half {
            Some(half) => Some((Ok(half), None)),
            None => {
                // Lets the half leave before the error closes the connection.
                sleep(Duration::from_millis(20)).await;
                Some((Err(io::Error::from(io::ErrorKind::ConnectionAborted)), None))
            }
        }
    });
    streamed(length, Body::from_stream(parts))
}

/// Sends one byte per second.
pub(super) fn trickle(body: Vec<u8>) -> Response {
    let length = body.len();
    let bytes = stream::unfold(Bytes::from(body), |mut left| async move {
        if left.is_empty() {
            return None;
        }
        sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, Infallible>(left.split_to(1)), left))
    });
    streamed(length, Body::from_stream(bytes))
}

/// The charge with 10 MB of padding as its last member.
pub(super) fn huge(body: Vec<u8>) -> Response {
    let open = body.len() - 1;
    let start = Bytes::from(body).slice(..open);
    let padding = std::iter::repeat_n(Bytes::from_static(PADDING), HUGE_BYTES / PADDING.len());
    let parts = [start, Bytes::from_static(br#","padding":""#)]
        .into_iter()
        .chain(padding)
        .chain([Bytes::from_static(br#""}"#)]);
    let body = Body::from_stream(stream::iter(parts.map(Ok::<_, Infallible>)));
    json(body)
}

fn streamed(length: usize, body: Body) -> Response {
    let mut response = json(body);
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    response
}

fn json(body: Body) -> Response {
    let mut response = Response::new(body);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
