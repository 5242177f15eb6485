//! `GET /openapi.json` and `GET /docs`: the contract for programs and for people. The page brings its
//! own script and style and loads nothing from elsewhere.

use crate::openapi;
use crate::problem::Code;
use axum::Router;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use http::{HeaderName, header};
use std::fmt::Write;
use std::sync::LazyLock;

const FRAME: &str = include_str!("../docs/page.html");
const SCRIPT: &str = include_str!("../docs/page.js");
const STYLE: &str = include_str!("../docs/page.css");

/// Nothing but our own files: not even an inline style gets in.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page. The problems stand in it, so that `/docs#<code>` works without a script too.
static PAGE: LazyLock<String> = LazyLock::new(|| FRAME.replace("<!-- problems -->", &problems()));

/// Serves the contract and the page.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/openapi.json", get(openapi_json))
        .route("/docs", get(page))
        .route("/docs/page.js", get(|| async { asset("text/javascript; charset=utf-8", SCRIPT) }))
        .route("/docs/page.css", get(|| async { asset("text/css; charset=utf-8", STYLE) }))
}

/// This document
#[utoipa::path(get, path = "/openapi.json", tag = "operations",
    responses((status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json")))]
pub async fn openapi_json() -> Response {
    asset("application/json", &openapi::JSON)
}

/// The contract, to read
#[utoipa::path(get, path = "/docs", tag = "operations",
    responses((status = 200, description = "HTML, with an anchor for each problem code", body = String, content_type = "text/html")))]
pub async fn page() -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, Html(PAGE.as_str())).into_response()
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, &str); 3] = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}

/// What each code means and what to do. The texts are ours and hold nothing that HTML minds.
fn problems() -> String {
    let mut html = String::new();
    for code in Code::ALL {
        let (word, meaning) = (code.as_str(), code.meaning());
        let retry = if meaning.retryable { "retryable" } else { "not retryable" };
        // Writing to a string does not fail.
        let _ = write!(
            html,
            "<article id=\"{word}\"><h3><code>{word}</code> <small>{} · {retry}</small></h3><p>{}. {}</p></article>",
            meaning.status.as_u16(),
            meaning.title,
            in_code(meaning.advice),
        );
    }
    html
}

/// Backticks to `code`.
fn in_code(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces.map(|(n, piece)| if n % 2 == 1 { format!("<code>{piece}</code>") } else { piece.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_anchor() {
        for code in Code::ALL {
            assert!(PAGE.contains(&format!("<article id=\"{}\">", code.as_str())), "{code:?}");
        }
    }

    #[test]
    fn the_texts_need_no_escaping() {
        for code in Code::ALL {
            let meaning = code.meaning();
            assert!(!format!("{}{}", meaning.title, meaning.advice).contains(['<', '>', '&', '"']), "{code:?}");
        }
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere() {
        for text in [FRAME, SCRIPT, STYLE] {
            assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("\"//"));
        }
        assert!(!FRAME.contains("<style") && !FRAME.contains(" style=") && !FRAME.contains(" onclick="));
    }
}
