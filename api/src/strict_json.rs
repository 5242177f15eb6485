//! JSON, read strictly: members keep their order and their doubles, numbers keep their spelling.
//! Nothing goes through a float, and nothing is converted to be of use.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::fmt;

/// The members of an object, as they were written.
pub struct Members<'a>(pub Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Collect)
    }
}

struct Collect;

impl<'de> Visitor<'de> for Collect {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

/// Why a text is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoObject {
    /// It is not JSON.
    #[error("this is not JSON (line {line}, column {column})")]
    Malformed {
        /// From 1.
        line: usize,
        /// From 1, in bytes.
        column: usize,
    },
    /// It is JSON, and something else.
    #[error("it must be a JSON object")]
    Other,
}

/// The members of the object that `text` is.
///
/// # Errors
/// [`NoObject`].
pub fn object(text: &str) -> Result<Members<'_>, NoObject> {
    serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data => NoObject::Other,
        _ => NoObject::Malformed { line: error.line(), column: error.column() },
    })
}

/// What stands where a string was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoText {
    /// A value of another type.
    OtherType,
    /// A string that stands for no text: half of a surrogate pair.
    Broken,
}

/// The string that `value` is.
///
/// # Errors
/// [`NoText`].
pub fn text(value: &RawValue) -> Result<String, NoText> {
    match value.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(value.get()).map_err(|_| NoText::Broken),
        _ => Err(NoText::OtherType),
    }
}

/// What stands where an integer was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoInteger {
    /// A value of another type.
    OtherType,
    /// A number with a point or an exponent, even one that means a whole number: whoever writes `19.0`
    /// computes with floats, and the next amount may be `19.989999999999998`.
    Fraction,
    /// More than 64 bits hold.
    TooLarge,
}

/// The integer that `value` is spelled as.
///
/// # Errors
/// [`NoInteger`].
pub fn integer(value: &RawValue) -> Result<i64, NoInteger> {
    let spelled = value.get();
    match spelled.as_bytes().first() {
        Some(b'-' | b'0'..=b'9') if spelled.contains(['.', 'e', 'E']) => Err(NoInteger::Fraction),
        Some(b'-' | b'0'..=b'9') => spelled.parse().map_err(|_| NoInteger::TooLarge),
        _ => Err(NoInteger::OtherType),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn members_keep_order_doubles_and_spelling() {
        let Members(members) = object(r#" {"b": 1.0, "\u0061": "x" , "b":{}} "#).unwrap();
        let seen: Vec<_> = members.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
        assert_eq!(seen, [("b", "1.0"), ("a", "\"x\""), ("b", "{}")]);
    }

    #[test]
    fn what_is_not_json_says_where() {
        assert_eq!(object("{\n\"a\" 1}").err(), Some(NoObject::Malformed { line: 2, column: 5 }));
        for text in
            ["", " ", "{", "{}x", "{\"a\":01}", "{\"a\":NaN}", "{'a':1}", "{\"a\":1,}", "\u{feff}{}", "{\"\\ud800\":1}"]
        {
            assert!(matches!(object(text), Err(NoObject::Malformed { .. })), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_an_object_says_so() {
        for text in ["[]", "1", "null", "\"{}\""] {
            assert_eq!(object(text).err(), Some(NoObject::Other), "{text:?}");
        }
    }

    #[test]
    fn only_a_spelled_integer_is_one() {
        assert_eq!(integer(raw("1999")), Ok(1999));
        assert_eq!(integer(raw("-1")), Ok(-1));
        for fraction in ["1.0", "1e2", "1E2", "19.99", "-0.0"] {
            assert_eq!(integer(raw(fraction)), Err(NoInteger::Fraction), "{fraction}");
        }
        for other in ["\"1999\"", "null", "true", "[1]", "{}"] {
            assert_eq!(integer(raw(other)), Err(NoInteger::OtherType), "{other}");
        }
        assert_eq!(integer(raw("9223372036854775808")), Err(NoInteger::TooLarge));
    }

    #[test]
    fn half_a_surrogate_pair_is_no_text() {
        assert_eq!(text(raw(r#""\ud83d\udcb3""#)), Ok("💳".to_owned()));
        assert_eq!(text(raw(r#""\ud83d""#)), Err(NoText::Broken));
        assert_eq!(text(raw("1")), Err(NoText::OtherType));
    }

    #[test]
    fn nesting_does_not_grow_the_stack() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(30_000), "]".repeat(30_000));
        assert!(object(&deep).is_ok());
    }
}
