//! The clients of acquirers. Every way in which a call can go wrong comes back as an [`Answer`] that
//! proves nothing; there is no `Err` to be retried by somebody who does not know what a retry costs.

pub mod gate;
mod plain;
mod stripe;
mod wire;

pub use wire::install_tls;

use gate::Gate;
use plain::Plain;
use shared::acquirer::amount::{self, NotRepresentable};
use shared::acquirer::{Answer, Contract};
use shared::config::{self, Kind};
use shared::payment::Payment;
use std::collections::BTreeMap;
use std::time::Duration;
use stripe::Stripe;
use tokio::time::Instant;
use uuid::Uuid;
use wire::Wire;

/// Why a client cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The credential has characters that no header can carry.
    #[error("acquirers.{0}.credential has characters that an HTTP header cannot carry")]
    Credential(String),
    /// The HTTP client.
    #[error("no HTTP client for acquirers.{0}: {1}")]
    Build(String, reqwest::Error),
}

/// One configured acquirer.
pub struct AcquirerClient {
    wire: Wire,
    form: Form,
    gate: Gate,
    contract: Contract,
    key_scope: String,
    lists_by_reference: bool,
    exponents: BTreeMap<String, u32>,
    deadline: Duration,
    unavailable_after: Duration,
}

/// The wire form.
enum Form {
    Plain(Plain),
    Stripe(Stripe),
}

/// A question about one payment, or the charge itself.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// The payment.
    pub payment: &'a Payment,
    /// The acquirer's id of the charge, where it is known already.
    pub transaction_id: Option<&'a str>,
    /// The call's id in our records.
    pub request_id: Uuid,
    /// When the claim's clock over all its calls ends.
    pub deadline: Instant,
}

impl AcquirerClient {
    /// Builds the client of a profile.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn new(name: &str, profile: &config::Acquirer) -> Result<Self, ClientError> {
        let form = match profile.kind {
            Kind::Http => Form::Plain(Plain::new(profile)),
            Kind::Stripe => Form::Stripe(Stripe::new(profile)),
        };
        let mut exponents = match profile.kind {
            Kind::Http => BTreeMap::new(),
            Kind::Stripe => shared::acquirer::stripe::exponents(),
        };
        exponents.extend(profile.exponent_overrides.clone());
        Ok(Self {
            wire: Wire::new(name, profile)?,
            form,
            gate: Gate::new(name, profile),
            contract: profile.contract(),
            key_scope: profile.key_scope(),
            lists_by_reference: profile.lists_by_reference(),
            exponents,
            deadline: Duration::from_millis(profile.deadline_ms),
            unavailable_after: Duration::from_secs(profile.unavailable_after_s),
        })
    }

    /// What this acquirer promises.
    #[must_use]
    pub const fn contract(&self) -> &Contract {
        &self.contract
    }

    /// The realm in which it knows our keys.
    #[must_use]
    pub fn key_scope(&self) -> &str {
        &self.key_scope
    }

    /// Whether it can be asked what became of a charge.
    #[must_use]
    pub fn can_be_asked(&self) -> bool {
        self.contract.can_be_asked()
    }

    /// Whether it can list all charges that bear a reference.
    #[must_use]
    pub const fn lists_by_reference(&self) -> bool {
        self.lists_by_reference
    }

    /// The way in: every call needs a pass.
    #[must_use]
    pub const fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The longest that one call may take.
    #[must_use]
    pub const fn call_budget(&self) -> Duration {
        self.wire.call_budget()
    }

    /// The longest that one claim may spend with this acquirer.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// A payment that was never sent fails when it has waited for a way to the acquirer for so long.
    #[must_use]
    pub const fn unavailable_after(&self) -> Duration {
        self.unavailable_after
    }

    /// Whether the payment's amount can be told to this acquirer.
    ///
    /// # Errors
    /// [`NotRepresentable`].
    pub fn amount(&self, payment: &Payment) -> Result<i64, NotRepresentable> {
        let told = amount::on_the_wire(payment.amount_minor, &payment.currency, &self.exponents)?;
        match &self.form {
            Form::Stripe(_) if told % shared::acquirer::stripe::step(&payment.currency) != 0 => {
                Err(NotRepresentable::new(payment.amount_minor, &payment.currency, 2))
            }
            Form::Plain(_) | Form::Stripe(_) => Ok(told),
        }
    }

    /// Sends the charge. `sent_before`: an earlier send may have reached the acquirer.
    pub async fn charge(&self, ask: Ask<'_>, sent_before: bool) -> Answer {
        let amount = match self.amount(ask.payment) {
            Ok(amount) => amount,
            Err(refused) => return Answer::unknown(None, "amount_not_representable", &refused.to_string()),
        };
        match &self.form {
            Form::Plain(plain) => plain.charge(&self.wire, ask, amount, sent_before).await,
            Form::Stripe(stripe) => stripe.charge(&self.wire, ask, amount, sent_before).await,
        }
    }

    /// Asks what became of the charge, in the way that the contract names.
    pub async fn lookup(&self, ask: Ask<'_>) -> Answer {
        // An amount that cannot be told now may have been told under another configuration. No charge has the
        // amount 0, so whatever is found goes before a person.
        let amount = self.amount(ask.payment).unwrap_or_default();
        match &self.form {
            Form::Plain(plain) => plain.lookup(&self.wire, ask, amount).await,
            Form::Stripe(stripe) => stripe.lookup(&self.wire, ask, amount).await,
        }
    }

    /// Asks for all charges that bear the payment's reference. `None`: this acquirer cannot list them.
    pub async fn list(&self, ask: Ask<'_>) -> Option<Answer> {
        let amount = self.amount(ask.payment).ok().filter(|_| self.lists_by_reference)?;
        Some(match &self.form {
            Form::Plain(plain) => plain.list(&self.wire, ask, amount).await,
            Form::Stripe(stripe) => stripe.list(&self.wire, ask, amount).await,
        })
    }

    /// Asks something harmless, to see whether the acquirer is there: the HTTP status.
    ///
    /// # Errors
    /// Why nobody answered.
    pub async fn probe(&self) -> Result<u16, String> {
        let request = match &self.form {
            Form::Plain(plain) => plain.probe(&self.wire),
            Form::Stripe(stripe) => stripe.probe(&self.wire),
        };
        match self.wire.call(request, Instant::now() + self.deadline).await {
            Ok((status, _)) => Ok(status),
            Err(lost) => lost.http_status.ok_or_else(|| lost.message.unwrap_or_default()),
        }
    }
}
