//! Asking for a password: on the terminal without echo and twice, or from a pipe as its only line.

use crate::failure::Failure;
use shared::operator::{OperatorError, Password};
use std::io::{self, IsTerminal, Read, stdin};

/// More bytes than any password has; what comes after them is not waited for.
const MOST: u64 = 4 * Password::LONGEST as u64 + 2;

/// Asks for an operator's new password.
///
/// # Errors
/// One that may not be one, one that was typed in two ways, or nobody there to ask.
pub fn ask(operator: &str) -> Result<Password, Failure> {
    if stdin().is_terminal() {
        return twice(operator, rpassword::prompt_password);
    }
    let mut text = String::new();
    stdin().take(MOST).read_to_string(&mut text).map_err(unread)?;
    Ok(Password::new(only_line(&text))?)
}

/// The second time finds what nobody saw being mistyped. A password that may not be one is not asked for again.
fn twice(operator: &str, mut read: impl FnMut(String) -> io::Result<String>) -> Result<Password, Failure> {
    let first = read(format!("New password of {operator}: ")).map_err(unread)?;
    let password = Password::new(first.clone())?;
    let second = read("The same once more: ".to_owned()).map_err(unread)?;
    if first == second { Ok(password) } else { Err(Failure::PasswordsDiffer) }
}

fn unread(error: io::Error) -> Failure {
    match error.kind() {
        // Not UTF-8: nothing that could be typed again.
        io::ErrorKind::InvalidData => OperatorError::BadPassword.into(),
        _ => Failure::System { what: "read the password", source: error },
    }
}

/// Without the end of the line, which `echo` and editors add and nobody means.
fn only_line(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of these answers on the terminal, and how many of them were asked for.
    fn typed(answers: &[&str]) -> (Result<(), String>, usize) {
        let mut asked = 0;
        let password = twice("ada", |prompt| {
            assert!(prompt.ends_with(": "), "{prompt}");
            asked += 1;
            Ok(answers[asked - 1].to_owned())
        });
        (password.map(drop).map_err(|failure| failure.to_string()), asked)
    }

    #[test]
    fn a_password_is_typed_twice_and_the_same() {
        assert_eq!(typed(&["correct horse", "correct horse"]), (Ok(()), 2));
        let (refused, _) = typed(&["correct horse", "correct house"]);
        assert!(refused.unwrap_err().contains("differ"));
    }

    #[test]
    fn a_password_that_is_too_short_is_not_asked_for_twice() {
        let (refused, asked) = typed(&["horse"]);
        assert!(refused.unwrap_err().contains("at least 12 characters"));
        assert_eq!(asked, 1);
    }

    #[test]
    fn only_the_end_of_the_line_is_left_out() {
        for text in ["a secret", "a secret\n", "a secret\r\n"] {
            assert_eq!(only_line(text), "a secret");
        }
        assert_eq!(only_line(" a secret \n"), " a secret ");
        assert_eq!(only_line("two\nlines\n"), "two\nlines");
    }
}
