//! One thing that is wrong with a request, and where.

use serde::Serialize;
use utoipa::ToSchema;

/// The most faults that one answer lists.
const MOST: usize = 50;

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// Where.
    #[serde(flatten)]
    pub at: Place,
    /// What kind of fault, for programs: `missing`, `unknown_field`, `duplicate_member`, `wrong_type`,
    /// `not_an_integer`, `out_of_range`, `invalid_length`, `invalid_characters`, `too_many`,
    /// `unknown_currency`, `unknown_acquirer`, `malformed_json`; of the query `unknown_parameter`,
    /// `duplicate_parameter`, `invalid_value`.
    pub code: &'static str,
    /// What kind of fault, for people.
    pub detail: String,
}

/// Where a fault is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the body: a JSON pointer (RFC 6901), empty for the body as a whole.
    Pointer(String),
    /// In the query: the parameter's name.
    Parameter(String),
}

impl Fault {
    /// A fault of the body's member at `path`.
    #[must_use]
    pub fn in_body(path: &[&str], code: &'static str, detail: impl Into<String>) -> Self {
        let escaped = |name: &&str| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        Self { at: Place::Pointer(path.iter().map(escaped).collect()), code, detail: detail.into() }
    }

    /// A fault of a query parameter.
    #[must_use]
    pub fn in_query(parameter: &str, code: &'static str, detail: impl Into<String>) -> Self {
        Self { at: Place::Parameter(parameter.to_owned()), code, detail: detail.into() }
    }
}

/// All that is wrong with a request.
#[derive(Debug, Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Adds a fault; a body of nothing but faults is not answered with a longer one.
    pub fn add(&mut self, fault: Fault) {
        if self.0.len() < MOST {
            self.0.push(fault);
        }
    }

    /// Keeps the value, or adds the fault.
    pub fn keep<T>(&mut self, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.add(fault)).ok()
    }

    /// Nothing, when nothing is wrong.
    ///
    /// # Errors
    /// All faults, when there are any.
    pub fn none(self) -> Result<(), Vec<Fault>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_escapes_slashes_and_tildes() {
        let fault = Fault::in_body(&["metadata", "a/b~c"], "wrong_type", "a string");
        assert_eq!(fault.at, Place::Pointer("/metadata/a~1b~0c".to_owned()));
        assert_eq!(Fault::in_body(&[], "malformed_json", "").at, Place::Pointer(String::new()));
    }

    #[test]
    fn a_fault_says_in_one_member_where_it_is() {
        let json = |fault: &Fault| serde_json::to_string(fault).unwrap();
        assert_eq!(
            json(&Fault::in_body(&["currency"], "missing", "must be there")),
            r#"{"pointer":"/currency","code":"missing","detail":"must be there"}"#
        );
        assert!(json(&Fault::in_query("limit", "invalid_value", "")).starts_with(r#"{"parameter":"limit""#));
    }
}
