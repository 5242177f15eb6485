//! What one client asked and heard, every answer of it.

use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use uuid::Uuid;

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// `POST /v1/payments`.
    Post {
        /// Under which of the client's keys, from 0.
        nth: usize,
        /// Whether the amount was another one than the key came with first.
        changed: bool,
    },
    /// `GET /v1/payments/{id}`.
    Get {
        /// The payment.
        payment: Uuid,
    },
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// To what.
    pub ask: Ask,
    /// When it was asked.
    pub begun: Instant,
    /// When it was heard to the end.
    pub ended: Instant,
    /// The HTTP status.
    pub status: u16,
    /// The body, byte for byte.
    pub text: String,
    /// The body as JSON.
    pub json: Value,
}

impl Said {
    /// The problem's code, `""` when it is none.
    pub fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    /// The payment it is about.
    pub fn payment(&self) -> Option<Uuid> {
        let id = self.json["payment_id"].as_str().or(self.json["id"].as_str());
        id.and_then(|id| id.parse().ok())
    }

    /// The payment's status, in a payment or a problem.
    pub fn payment_status(&self) -> &str {
        self.json["payment_status"].as_str().or(self.json["status"].as_str()).unwrap_or_default()
    }

    /// Whether it says that the payment is final.
    pub fn is_final(&self) -> bool {
        matches!(self.status, 200 | 201) && matches!(self.payment_status(), "PAID" | "DECLINED" | "FAILED")
    }

    /// Whether it tells the client that its request was taken on, finished or not.
    pub fn is_accepted(&self) -> bool {
        let posted = matches!(self.ask, Ask::Post { changed: false, .. });
        posted && (matches!(self.status, 201 | 202) || self.code() == "payment_in_progress")
    }

    /// Whether to repeat: nothing was decided about the request.
    pub fn is_to_be_repeated(&self) -> bool {
        matches!(self.status, 429 | 503) || self.code() == "payment_in_progress"
    }

    /// Which key it was posted under, unless it was posted changed.
    pub fn key(&self) -> Option<usize> {
        match self.ask {
            Ask::Post { nth, changed: false } => Some(nth),
            Ask::Post { .. } | Ask::Get { .. } => None,
        }
    }
}

/// What a client wants to pay.
#[derive(Clone, Debug)]
pub(super) struct Intent {
    /// Which of all it is.
    pub number: usize,
    /// The merchant's id of it.
    pub id: String,
    /// In minor units.
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: &'static str,
    /// The means of payment.
    pub method: String,
}

/// What came of one intent, as its client tells it.
pub(super) struct Story {
    /// What it wanted.
    pub intent: Intent,
    said: Mutex<Vec<Said>>,
    unheard: Mutex<usize>,
}

impl Story {
    /// A story that begins.
    pub fn of(intent: Intent) -> Self {
        Self { intent, said: Mutex::default(), unheard: Mutex::default() }
    }

    /// Notes an answer.
    pub fn hears(&self, said: Said) {
        lock(&self.said).push(said);
    }

    /// Notes that no answer came.
    pub fn hears_nothing(&self) {
        *lock(&self.unheard) += 1;
    }

    /// How many requests went without an answer.
    pub fn unheard(&self) -> usize {
        *lock(&self.unheard)
    }

    /// Every answer, in the order in which they were heard.
    pub fn said(&self) -> MutexGuard<'_, Vec<Said>> {
        lock(&self.said)
    }

    /// The keys under which the client was told that it was taken on.
    pub fn accepted_keys(&self) -> BTreeSet<usize> {
        self.said().iter().filter(|said| said.is_accepted()).filter_map(Said::key).collect()
    }
}

fn lock<T>(on: &Mutex<T>) -> MutexGuard<'_, T> {
    on.lock().unwrap_or_else(PoisonError::into_inner)
}
