//! Query parameters, as strict as the body: what is unknown, doubled or unreadable is a fault.

use crate::problem::{Fault, Faults, Problem};
use axum::extract::Query as Pairs;
use http::Uri;

/// The most entries of one page.
const MOST: i64 = 100;
/// The entries of a page when the client does not say.
const USUAL: i64 = 20;

/// The parameters of a request that were not read yet.
pub struct Query {
    pairs: Vec<(String, String)>,
    faults: Faults,
}

impl Query {
    /// The parameters of `uri`.
    #[must_use]
    pub fn of(uri: &Uri) -> Self {
        let pairs = Pairs::<Vec<(String, String)>>::try_from_uri(uri).map(|Pairs(pairs)| pairs);
        Self { pairs: pairs.unwrap_or_default(), faults: Faults::default() }
    }

    /// Reads the parameter `name` with `read`; what it does not take is a fault that says what would
    /// have been, `expected`.
    pub fn take<T>(&mut self, name: &str, expected: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let (mine, others) = std::mem::take(&mut self.pairs).into_iter().partition(|(found, _)| found == name);
        self.pairs = others;
        let mine: Vec<(String, String)> = mine;
        if mine.len() > 1 {
            self.faults.add(Fault::in_query(name, "duplicate_parameter", "it is given more than once"));
        }
        let (_, value) = mine.first()?;
        let fault = || Fault::in_query(name, "invalid_value", format!("it must be {expected}"));
        self.faults.keep(read(value).ok_or_else(fault))
    }

    /// Reads `limit`.
    pub fn limit(&mut self) -> i64 {
        let number = |text: &str| text.parse().ok().filter(|limit| (1..=MOST).contains(limit));
        self.take("limit", "a whole number from 1 to 100", number).unwrap_or(USUAL)
    }

    /// All has been read.
    ///
    /// # Errors
    /// Every fault at once, unknown parameters included.
    pub fn done(mut self) -> Result<(), Problem> {
        for (name, _) in &self.pairs {
            self.faults.add(Fault::in_query(name, "unknown_parameter", "there is no such parameter"));
        }
        self.faults.none().map_err(Problem::invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/v1/payments?{text}").parse().unwrap())
    }

    #[test]
    fn a_page_has_20_entries_when_nothing_is_said_and_100_at_most() {
        let limit = |text: &str| {
            let mut query = query(text);
            let limit = query.limit();
            query.done().ok().map(|()| limit)
        };
        assert_eq!([limit(""), limit("limit=1"), limit("limit=100")], [Some(20), Some(1), Some(100)]);
        for bad in ["limit=0", "limit=101", "limit=", "limit=ten", "limit=1.0", "limit=1&limit=1"] {
            assert_eq!(limit(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_nobody_reads_is_refused() {
        assert!(query("satus=PAID").done().is_err());
        assert!(query("").done().is_ok());
    }

    #[test]
    fn values_are_decoded() {
        assert_eq!(query("a=x%2Fy+z").take("a", "", |text| Some(text.to_owned())), Some("x/y z".to_owned()));
    }
}
