//! Amounts as an acquirer counts them. Ours are in the minor unit of ISO 4217; some acquirers give a
//! currency another number of decimal places.

use iso_currency::Currency;
use std::collections::BTreeMap;

/// An amount that an acquirer cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{amount_minor} of {currency} cannot be told to this acquirer, which counts it with {exponent} decimal places")]
pub struct NotRepresentable {
    amount_minor: i64,
    currency: String,
    exponent: u32,
}

impl NotRepresentable {
    /// `amount_minor` of `currency`, at an acquirer that counts it with `exponent` decimal places.
    #[must_use]
    pub fn new(amount_minor: i64, currency: &str, exponent: u32) -> Self {
        Self { amount_minor, currency: currency.to_owned(), exponent }
    }
}

/// What the acquirer is told for `amount_minor` (ISO 4217 minor unit) of `currency`.
///
/// # Errors
/// [`NotRepresentable`] when it would have to be rounded, or does not fit.
pub fn on_the_wire(
    amount_minor: i64,
    currency: &str,
    overrides: &BTreeMap<String, u32>,
) -> Result<i64, NotRepresentable> {
    let Some(&exponent) = overrides.get(currency) else { return Ok(amount_minor) };
    let iso = Currency::from_code(currency).and_then(Currency::exponent).map_or(exponent, u32::from);
    let shift = |places: u32| 10_i64.checked_pow(places);
    let counted = if exponent >= iso {
        shift(exponent - iso).and_then(|factor| amount_minor.checked_mul(factor))
    } else {
        shift(iso - exponent).filter(|factor| amount_minor % factor == 0).map(|factor| amount_minor / factor)
    };
    counted.ok_or_else(|| NotRepresentable::new(amount_minor, currency, exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(amount_minor: i64, currency: &str, exponent: u32) -> Option<i64> {
        on_the_wire(amount_minor, currency, &[(currency.to_owned(), exponent)].into()).ok()
    }

    #[test]
    fn without_an_override_the_minor_unit_is_that_of_iso_4217() {
        assert_eq!(on_the_wire(1999, "EUR", &BTreeMap::new()), Ok(1999));
        assert_eq!(on_the_wire(500, "JPY", &BTreeMap::new()), Ok(500));
    }

    #[test]
    fn an_override_moves_the_point_and_never_rounds() {
        assert_eq!(told(500, "ISK", 2), Some(50_000), "ISO 4217: 0 places");
        assert_eq!(told(1200, "MGA", 0), Some(12), "ISO 4217: 2 places");
        assert_eq!(told(1250, "MGA", 0), None);
        assert_eq!(told(9_007_199_254_740_991, "ISK", 4), None, "does not fit");
        let refused = on_the_wire(1250, "MGA", &[("MGA".to_owned(), 0)].into()).unwrap_err();
        assert!(refused.to_string().contains("1250 of MGA"), "{refused}");
    }
}
