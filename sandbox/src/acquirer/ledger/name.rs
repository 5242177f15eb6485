//! A key or a reference, kept small.

use std::fmt;

/// 32 lower-case hex digits (what a UUID without hyphens is) take 16 bytes and no heap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::acquirer) enum Name {
    Hex([u8; 16]),
    Text(Box<str>),
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        match hex(text.as_bytes()) {
            Some(bytes) => Name::Hex(bytes),
            None => Name::Text(text.into()),
        }
    }
}

fn hex(digits: &[u8]) -> Option<[u8; 16]> {
    let digits: &[u8; 32] = digits.try_into().ok()?;
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Hex(bytes) => write!(f, "{:032x}", u128::from_be_bytes(*bytes)),
            Name::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_were_given() {
        for text in [
            "0192f0c1a2b37c4d8e5f00112233aabb",
            "0192F0C1A2B37C4D8E5F00112233AABB",
            "0192f0c1a2b37c4d8e5f00112233aabg",
            "order-1",
            "",
        ] {
            assert_eq!(Name::from(text).to_string(), text);
        }
        assert_eq!(size_of::<Name>(), 24);
    }
}
