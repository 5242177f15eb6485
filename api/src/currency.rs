//! Which currencies can be paid in.

use iso_currency::Currency;

/// Whether `code` is an ISO 4217 code in upper case, active, with a minor unit. That leaves out
/// metals, test codes and withdrawn currencies.
#[must_use]
pub fn is_payable(code: &str) -> bool {
    Currency::from_code(code).is_some_and(|currency| currency.exponent().is_some() && is_active(currency))
}

fn is_active(currency: Currency) -> bool {
    // ISO lists VES and VED side by side; the crate's source calls the first superseded.
    currency == Currency::VES || currency.is_superseded().is_none()
}

#[cfg(test)]
mod tests {
    use super::is_payable;

    #[test]
    fn active_currencies_are_taken_whatever_their_exponent() {
        for code in ["EUR", "USD", "HUF", "JPY", "KWD", "ISK", "CHF", "ZWG", "XCG", "XOF", "VES"] {
            assert!(is_payable(code), "{code}");
        }
    }

    #[test]
    fn what_is_no_active_currency_is_not() {
        let no_minor_unit = ["XXX", "XAU", "XAG", "XTS", "XDR", "XUA"];
        let withdrawn = ["DEM", "HRK", "BGN", "SLL", "ZWL", "CUC", "VEF", "EEK", "ANG", "MRO"];
        let no_code = ["usd", "Eur", "", "EU", "EURO", " EUR", "AAA", "ÉUR", "978"];
        for code in no_minor_unit.into_iter().chain(withdrawn).chain(no_code) {
            assert!(!is_payable(code), "{code}");
        }
    }
}
