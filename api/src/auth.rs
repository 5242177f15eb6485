//! Who calls: `Authorization: Bearer <api key>`, then the limit of that key.
//!
//! Nothing is remembered: a key that is revoked is refused from the next request on. What makes that
//! cheap is that all requests that wait at the same moment are asked about in one read.

use crate::Api;
use crate::problem::{Code, Problem};
use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use shared::merchant;
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// The most credentials of one read.
const MOST: usize = 256;
/// The longest credential that is looked up, in bytes.
const LONGEST: usize = 256;
/// How long one read may take before everyone in it hears that the database is away.
const PATIENCE: Duration = Duration::from_secs(4);

/// The merchant, and which of its keys, a request comes from. As an argument of a handler it stands
/// for 401 and 429.
#[derive(Clone, Debug)]
pub struct Caller(pub merchant::Caller);

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
        let credential = bearer(&parts.headers)?;
        let caller = api.gate.who(credential).await?;
        let caller =
            caller.ok_or_else(|| unauthorized("this API key is unknown or revoked", "error=\"invalid_token\""))?;
        tracing::Span::current().record("merchant_id", tracing::field::display(caller.merchant_id));
        api.limits.take(caller.key_id)?;
        Ok(Self(caller))
    }
}

fn unauthorized(detail: &'static str, error: &str) -> Problem {
    let challenge = ["Bearer realm=\"payonce\"", error].join(if error.is_empty() { "" } else { ", " });
    Problem::new(Code::Unauthorized, detail).header(header::WWW_AUTHENTICATE, challenge)
}

/// The bearer token of a request (RFC 6750; the scheme's name in any case).
fn bearer(headers: &HeaderMap) -> Result<String, Problem> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let token = match (lines.next(), lines.next()) {
        (Some(line), None) => token(line),
        _ => None,
    };
    token.ok_or_else(|| unauthorized("this path needs exactly one header Authorization: Bearer <api key>", ""))
}

fn token(line: &HeaderValue) -> Option<String> {
    let (scheme, token) = line.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    let well_formed = (1..=LONGEST).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && well_formed).then(|| token.to_owned())
}

struct Asked {
    credential: String,
    /// Dropped unanswered when the database cannot say.
    answer: oneshot::Sender<Option<merchant::Caller>>,
}

/// Looks credentials up, all that wait at once. Its task ends with its last handle.
#[derive(Clone, Debug)]
pub struct Gate(mpsc::Sender<Asked>);

impl Gate {
    /// Starts looking up on `pool`. It holds one connection while it reads and none while it waits.
    #[must_use]
    pub fn start(pool: PgPool) -> Self {
        let (ask, asked) = mpsc::channel(MOST);
        tokio::spawn(look_up(pool, asked));
        Self(ask)
    }

    /// Whose credential it is, by a read that begins after this call: a revocation before it counts.
    async fn who(&self, credential: String) -> Result<Option<merchant::Caller>, Problem> {
        let (answer, told) = oneshot::channel();
        let unanswered = || Problem::database_unavailable();
        let asked = timeout(PATIENCE, self.0.send(Asked { credential, answer })).await;
        asked.map_err(|_| unanswered())?.map_err(|_| unanswered())?;
        told.await.map_err(|_| unanswered())
    }
}

async fn look_up(pool: PgPool, mut asked: mpsc::Receiver<Asked>) {
    let mut batch = Vec::with_capacity(MOST);
    while asked.recv_many(&mut batch, MOST).await > 0 {
        // Whoever has gone need not be asked about.
        batch.retain(|asked| !asked.answer.is_closed());
        let credentials: Vec<&str> = batch.iter().map(|asked| asked.credential.as_str()).collect();
        match timeout(PATIENCE, merchant::authenticate(&pool, &credentials)).await {
            Ok(Ok(callers)) => {
                for (asked, caller) in batch.drain(..).zip(callers) {
                    // Whoever asked may have gone.
                    let _ = asked.answer.send(caller);
                }
            }
            Ok(Err(error)) => tracing::warn!(%error, requests = batch.len(), "credentials cannot be looked up"),
            Err(_) => tracing::warn!(requests = batch.len(), "credentials cannot be looked up: the database is silent"),
        }
        batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<String> {
        token(&HeaderValue::from_str(line).unwrap())
    }

    #[test]
    fn a_bearer_token_is_read_whatever_the_case_of_its_scheme() {
        for line in ["Bearer abc", "bearer abc", "BEARER  abc"] {
            assert_eq!(read(line).as_deref(), Some("abc"), "{line:?}");
        }
    }

    #[test]
    fn anything_else_is_no_credential() {
        for line in ["", "abc", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer: abc"] {
            assert_eq!(read(line), None, "{line:?}");
        }
        assert_eq!(read(&format!("Bearer {}", "x".repeat(257))), None);
    }

    #[test]
    fn two_credentials_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert!(bearer(&headers).is_ok());
        headers.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert_eq!(bearer(&headers).unwrap_err().code(), Code::Unauthorized);
    }
}
