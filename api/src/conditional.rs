//! `ETag` and `If-None-Match`: a payment's version is its entity tag.

use http::{HeaderMap, HeaderValue, header};

/// The entity tag of a version.
#[must_use]
pub fn etag(version: i32) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"0\""))
}

/// What a client says it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Has {
    /// It does not say.
    Unsaid,
    /// `*`: whatever there is.
    Anything,
    /// These versions.
    Versions(Vec<i32>),
}

impl Has {
    /// Reads `If-None-Match`. Tags are compared weakly, as RFC 9110 asks; a tag that was never ours
    /// matches nothing.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let lines: Vec<&str> =
            headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok()).collect();
        let mut tags = lines.iter().flat_map(|line| line.split(',')).map(str::trim);
        if lines.is_empty() {
            return Self::Unsaid;
        }
        if tags.clone().any(|tag| tag == "*") {
            return Self::Anything;
        }
        Self::Versions(tags.by_ref().filter_map(version).collect())
    }

    /// Whether the client has this version.
    #[must_use]
    pub fn has(&self, version: i32) -> bool {
        match self {
            Self::Unsaid => false,
            Self::Anything => true,
            Self::Versions(versions) => versions.contains(&version),
        }
    }
}

fn version(tag: &str) -> Option<i32> {
    tag.strip_prefix("W/").unwrap_or(tag).strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(line: &str) -> Has {
        Has::of(&HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_str(line).unwrap())]))
    }

    #[test]
    fn a_tag_is_the_version_in_quotes() {
        assert_eq!(etag(3), "\"3\"");
        assert!(has("\"3\"").has(3));
        assert!(!has("\"3\"").has(4));
    }

    #[test]
    fn lists_weak_tags_and_the_star_are_understood() {
        assert!(has("\"1\", W/\"3\"").has(3));
        assert!(has("*").has(7));
        assert!(!Has::of(&HeaderMap::new()).has(1));
    }

    #[test]
    fn a_tag_that_was_never_ours_matches_nothing() {
        for line in ["3", "\"x\"", "\"3", ""] {
            assert_eq!(has(line), Has::Versions(vec![]), "{line:?}");
        }
    }
}
