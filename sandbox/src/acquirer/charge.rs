//! A charge as the acquirer's clients see it.

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::value::RawValue;

use super::ledger::{Booking, Status};
use super::method::Method;

/// The JSON of a charge, the faults of its method included.
#[derive(Serialize)]
pub(super) struct Charge {
    pub transaction_id: String,
    pub status: &'static str,
    pub reference: String,
    pub amount_minor: i64,
    pub currency: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decline_code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'static RawValue>,
    /// The real status, which decides the HTTP status.
    #[serde(skip)]
    pub booked: Status,
}

impl Charge {
    /// What the acquirer shows of a booking whose status by now is `status`.
    pub fn shown(transaction_id: String, reference: String, booking: Booking, status: Status) -> Charge {
        let mut charge = Charge {
            transaction_id,
            status: status.as_str(),
            reference,
            amount_minor: booking.amount_minor,
            currency: currency(booking.currency),
            decline_code: None,
            message: None,
            booked: status,
        };
        charge.explain(booking.method);
        charge.distort(booking.method);
        charge
    }

    fn explain(&mut self, method: Method) {
        match self.booked {
            Status::Declined => {
                self.decline_code = Some("insufficient_funds");
                self.message = Some(match method {
                    Method::NulText => &NUL_TEXT,
                    _ => &DECLINED,
                });
            }
            Status::Rejected => self.message = Some(&REJECTED),
            Status::Approved | Status::Processing => {}
        }
    }

    fn distort(&mut self, method: Method) {
        match method {
            Method::WrongAmount => self.amount_minor += 1,
            Method::WrongCurrency if self.currency == "USD" => self.currency = "EUR".into(),
            Method::WrongCurrency => self.currency = "USD".into(),
            Method::WrongReference => self.reference.push_str("-of-somebody-else"),
            Method::NewStatus => self.status = "paid_out",
            _ => {}
        }
    }
}

/// A currency's three letters as text.
pub(super) fn currency(letters: [u8; 3]) -> String {
    letters.iter().copied().map(char::from).collect()
}

static DECLINED: LazyLock<Box<RawValue>> = LazyLock::new(|| text(r#""The card has insufficient funds.""#.into()));

static REJECTED: LazyLock<Box<RawValue>> = LazyLock::new(|| text(r#""The payment method cannot be charged.""#.into()));

/// About 150 kB of what a careless store or terminal chokes on.
static NUL_TEXT: LazyLock<Box<RawValue>> = LazyLock::new(|| {
    let nasty = r"refused\u0000\u0001\u0008\u001b[31m\u007f\u2028\u202e \ud800 ";
    let filler = "\u{1d11e}\u{1f980}é ".repeat(13_000);
    text(format!("\"{nasty}\u{1f4b3}{filler}\""))
});

fn text(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("the texts above are JSON strings")
}
