//! Who calls: `Authorization: Bearer <credential>`, then the limit of that credential.
//!
//! Merchants have API keys and operators have tokens; each kind opens its own paths and no others.
//! Nothing is remembered: a credential that is revoked is refused from the next request on. What makes
//! that cheap is that all requests that wait at the same moment are asked about in one read.

use crate::Api;
use crate::limits::Limits;
use crate::problem::{Code, Problem};
use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use shared::operator::Action;
use shared::{merchant, operator};
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use uuid::Uuid;

/// The most credentials of one read.
const MOST: usize = 256;
/// The longest credential that is looked up, in bytes.
const LONGEST: usize = 256;
/// How long one read may take before everyone in it hears that the database is away.
const PATIENCE: Duration = Duration::from_secs(4);

/// Somebody who proves by a credential who they are.
pub trait Holder: Clone + Send + Sized + 'static {
    /// How a client is told which credential it takes.
    const NEEDED: &str;
    /// Why a credential was refused; the same words for every reason, so that nobody learns which.
    const REFUSED: &str;

    /// Whose credentials these are, in their order.
    fn authenticate(
        pool: &PgPool,
        credentials: &[&str],
    ) -> impl Future<Output = sqlx::Result<Vec<Option<Self>>>> + Send;

    /// The credential, whose limit counts.
    fn credential_id(&self) -> Uuid;
}

impl Holder for merchant::Caller {
    const NEEDED: &str = "this path needs exactly one header Authorization: Bearer <api key>";
    const REFUSED: &str = "this API key is unknown or revoked";

    async fn authenticate(pool: &PgPool, credentials: &[&str]) -> sqlx::Result<Vec<Option<Self>>> {
        merchant::authenticate(pool, credentials).await
    }

    fn credential_id(&self) -> Uuid {
        self.key_id
    }
}

impl Holder for operator::Caller {
    const NEEDED: &str = "this path needs exactly one header Authorization: Bearer <operator token>";
    const REFUSED: &str = "this operator token is unknown, expired or revoked, or its operator is disabled";

    async fn authenticate(pool: &PgPool, credentials: &[&str]) -> sqlx::Result<Vec<Option<Self>>> {
        operator::authenticate(pool, credentials).await
    }

    fn credential_id(&self) -> Uuid {
        self.token_id
    }
}

/// The merchant, and which of its keys, a request comes from. As an argument of a handler it stands
/// for 401 and 429.
#[derive(Clone, Debug)]
pub struct Caller(pub merchant::Caller);

impl FromRequestParts<Arc<Api>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
        let caller = let_in(parts, &api.merchants, &api.limits).await?;
        tracing::Span::current().record("merchant_id", tracing::field::display(caller.merchant_id));
        Ok(Self(caller))
    }
}

/// The operator, and which of its tokens, a request comes from. As an argument of a handler it stands
/// for 401 and 429; what the operator may do is asked with [`Operator::may`].
#[derive(Clone, Debug)]
pub struct Operator(pub operator::Caller);

impl Operator {
    /// Goes on when the operator may do that.
    ///
    /// # Errors
    /// 403 with the role that it takes.
    pub fn may(&self, action: Action) -> Result<(), Problem> {
        Ok(self.0.operator.may(action)?)
    }
}

impl FromRequestParts<Arc<Api>> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
        let caller = let_in(parts, &api.operators, &api.limits).await?;
        tracing::Span::current().record("operator_id", tracing::field::display(caller.operator.id));
        Ok(Self(caller))
    }
}

async fn let_in<H: Holder>(parts: &Parts, gate: &Gate<H>, limits: &Limits) -> Result<H, Problem> {
    let credential = bearer(&parts.headers).ok_or_else(|| unauthorized(H::NEEDED, ""))?;
    let holder = gate.who(credential).await?;
    let holder = holder.ok_or_else(|| unauthorized(H::REFUSED, "error=\"invalid_token\""))?;
    limits.take(holder.credential_id())?;
    Ok(holder)
}

fn unauthorized(detail: &'static str, error: &str) -> Problem {
    let challenge = ["Bearer realm=\"payonce\"", error].join(if error.is_empty() { "" } else { ", " });
    Problem::new(Code::Unauthorized, detail).header(header::WWW_AUTHENTICATE, challenge)
}

/// The bearer token of a request (RFC 6750; the scheme's name in any case).
fn bearer(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => token(line),
        _ => None,
    }
}

fn token(line: &HeaderValue) -> Option<String> {
    let (scheme, token) = line.to_str().ok()?.split_once(' ')?;
    let token = token.trim_matches(' ');
    let well_formed = (1..=LONGEST).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && well_formed).then(|| token.to_owned())
}

struct Asked<H> {
    credential: String,
    /// Dropped unanswered when the database cannot say.
    answer: oneshot::Sender<Option<H>>,
}

/// Looks credentials up, all that wait at once. Its task ends with its last handle.
#[derive(Clone, Debug)]
pub struct Gate<H>(mpsc::Sender<Asked<H>>);

impl<H: Holder> Gate<H> {
    /// Starts looking up on `pool`. It holds one connection while it reads and none while it waits.
    #[must_use]
    pub fn start(pool: PgPool) -> Self {
        let (ask, asked) = mpsc::channel(MOST);
        tokio::spawn(look_up(pool, asked));
        Self(ask)
    }

    /// Whose credential it is, by a read that begins after this call: a revocation before it counts.
    async fn who(&self, credential: String) -> Result<Option<H>, Problem> {
        let (answer, told) = oneshot::channel();
        let unanswered = || Problem::database_unavailable();
        let asked = timeout(PATIENCE, self.0.send(Asked { credential, answer })).await;
        asked.map_err(|_| unanswered())?.map_err(|_| unanswered())?;
        told.await.map_err(|_| unanswered())
    }
}

async fn look_up<H: Holder>(pool: PgPool, mut asked: mpsc::Receiver<Asked<H>>) {
    let mut batch = Vec::with_capacity(MOST);
    while asked.recv_many(&mut batch, MOST).await > 0 {
        // Whoever has gone need not be asked about.
        batch.retain(|asked| !asked.answer.is_closed());
        let credentials: Vec<&str> = batch.iter().map(|asked| asked.credential.as_str()).collect();
        match timeout(PATIENCE, H::authenticate(&pool, &credentials)).await {
            Ok(Ok(holders)) => {
                for (asked, holder) in batch.drain(..).zip(holders) {
                    // Whoever asked may have gone.
                    let _ = asked.answer.send(holder);
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
        assert!(bearer(&headers).is_some());
        headers.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert_eq!(bearer(&headers), None);
    }
}
