//! Texts that come from outside.

/// Makes a text from outside fit to be stored, logged and shown: control characters (NUL is what
/// Postgres refuses) become spaces, and no more than `max_chars` characters are kept, the last one
/// an ellipsis when something was cut. Never splits a character.
#[must_use]
pub fn clean(text: &str, max_chars: usize) -> String {
    let mut cleaned: String = text.chars().take(max_chars).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(max_chars).is_some() {
        cleaned.pop();
        cleaned.push('…');
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn control_characters_become_spaces() {
        assert_eq!(clean("no\0 fu\u{1b}nds\n", 100), "no  fu nds ");
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        assert_eq!(clean("€€€€€", 3), "€€…");
        assert_eq!(clean("💳💳💳", 3), "💳💳💳");
        assert_eq!(clean(&"x".repeat(1_000_000), 500).chars().count(), 500);
    }
}
